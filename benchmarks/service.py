"""The service under load: jobs queued, clients that follow events, and how long everything takes meanwhile.

    python benchmarks/service.py [--minutes 10] [--jobs 500] [--clients 50] [--out benchmarks/results/service-cpu.json]
    python benchmarks/service.py --quick        # about a minute

A server of the benchmark's own, on an embedded PostgreSQL of its own, with one core to lease. In this order:

1. Start to ready: from the start of the process to the first `GET /readyz` that succeeds; the first start makes the
   database, the others find it.
2. Time to cancel: from the request to cancel a running job to the state `cancelled`, its process gone.
3. No-op jobs per minute: `locate generate` of one recording, all queued at once, until the last has ended.
4. Held: one job runs and emits events all the time, `--jobs` others wait behind it, and `--clients` clients follow the
   events of the one that runs, half of them dropping their connection every few seconds and going on from the last id.
   Meanwhile every endpoint is asked in turn: p50 and p95 of its latency, without the first request (which imports
   what it needs, and is shown apart), the server's memory over time. At the end the job is cancelled, and what every
   client received is compared with what the server stored.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import psutil

from brimful import AsyncClient, Client
from brimful.core.base.formatting import format_bytes, format_seconds, format_table
from saving import save

SOURCE = Path(__file__).resolve().parents[1] / "src"
NOOP = ("locate", "generate", {"samples": 1, "out": "one.parquet"})
LONG = {"count": 50_000_000, "points": 4, "hidden": 4, "steps": 20, "device": "cpu", "budget": "50MB"}


class Server:
    """A server in a process of its own, with its state and database in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> float:
        """Seconds until it is ready."""
        log = (self._folder / "log.txt").open("ab")
        environment = os.environ | {
            "PYTHONPATH": str(SOURCE),
            "BRIMFUL_POSTGRES_DIR": str(self._folder / "pg"),
            "BRIMFUL_STATE_DIR": str(self._folder / "state"),
            "BRIMFUL_CACHE_DIR": str(self._folder / "cache"),
        }
        environment.pop("BRIMFUL_DATABASE_URL", None)
        os.environ["BRIMFUL_STATE_DIR"] = environment["BRIMFUL_STATE_DIR"]
        command = [sys.executable, "-m", "brimful", "serve", "--port", "0", "--cores", "1", "--log-json"]
        started = time.monotonic()
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        log.close()
        while True:
            if self._process.poll() is not None:
                raise SystemExit(f"the server ended: {(self._folder / 'log.txt').read_text()[-3000:]}")
            with contextlib.suppress(Exception), Client() as client:
                client.ready()
                self.url = client.url
                return time.monotonic() - started
            time.sleep(0.02)

    def memory(self) -> int:
        assert self._process is not None
        return psutil.Process(self._process.pid).memory_info().rss

    def stop(self) -> float:
        """Seconds until it has ended."""
        if self._process is None or self._process.poll() is not None:
            return 0.0
        started = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        return time.monotonic() - started


def wait_for(condition: Callable[[], bool], seconds: float = 300.0, every: float = 0.01) -> float:
    """Seconds until something is so."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > seconds:
            raise SystemExit(f"it did not come to be within {seconds} seconds")
        time.sleep(every)
    return time.monotonic() - started


def timed(call: Callable[[], Any]) -> float:
    """Seconds of a call."""
    started = time.monotonic()
    call()
    return time.monotonic() - started


def running(client: Client, id: str) -> Callable[[], bool]:
    """Whether a job has emitted progress; one that has ended is an error."""

    def is_running() -> bool:
        job = client.job(id)
        if job.state.ended:
            raise SystemExit(f"the job {job.state.value}: {job.message} {client.log(id)[0].decode()[-2000:]}")
        return job.progress.done > 0

    return is_running


def measure_cancel(client: Client, rounds: int) -> list[float]:
    seconds = []
    for _ in range(rounds):
        job = client.submit("nets", "train", LONG, job_name="to be cancelled")
        wait_for(running(client, job.id), every=0.05)
        started = time.monotonic()
        client.cancel(job.id)
        wait_for(lambda job=job: client.job(job.id).state.ended)
        seconds.append(time.monotonic() - started)
        client.delete(job.id)
    return seconds


def measure_noop(client: Client, count: int) -> float:
    """Jobs per minute."""
    first = client.submit(*NOOP, job_name="warm-up")  # the first imports what the others find
    wait_for(lambda: client.job(first.id).state.ended)
    started = time.monotonic()
    ids = [client.submit(*NOOP, job_name=f"no-op {number}").id for number in range(count)]
    wait_for(lambda: client.jobs(state=["queued", "running"], limit=1).total == 0, seconds=1200, every=0.05)
    minutes = (time.monotonic() - started) / 60
    states = {client.job(id).state.value for id in ids}
    if states != {"finished"}:
        raise SystemExit(f"no-op jobs ended as {states}")
    return count / minutes


async def follow(url: str, id: str, drops: bool, received: list[int], ends: float) -> None:
    """Follows events, from connection to connection, until some time."""
    rng = random.Random(len(received))
    async with AsyncClient(url) as client:
        while time.monotonic() < ends:
            until = min(ends, time.monotonic() + (rng.uniform(2, 6) if drops else 1e9))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(until - time.monotonic()):
                    async for event in client.events(id, received[-1] if received else 0):
                        received.append(event.id)


def endpoints(client: Client, running_id: str, queued_id: str) -> dict[str, Callable[[], Any]]:
    def submit_and_delete() -> None:
        job = client.submit(*NOOP, job_name="asked", priority=-100)
        client.cancel(job.id)
        client.delete(job.id)

    return {
        "GET jobs": lambda: client.jobs(),
        "GET jobs, filtered and sorted": lambda: client.jobs(state=["queued"], text="waiting 1", sort="name"),
        "GET job": lambda: client.job(queued_id),
        "GET metrics": lambda: client.metrics(running_id),
        "GET events, 100": lambda: list(_last_events(client, running_id)),
        "GET log": lambda: client.log(running_id),
        "GET artifacts": lambda: client.artifacts(running_id),
        "GET devices": lambda: client.devices(),
        "GET workloads": lambda: client.workloads(),
        "POST plan": lambda: client.plan("nets", "train", {"count": 1000, "device": "cpu"}),
        "POST job, cancel, DELETE": submit_and_delete,
        "GET readyz": lambda: client.ready(),
    }


def _last_events(client: Client, id: str) -> Iterator[Any]:
    newest = getattr(_last_events, "newest", 0)
    for event in client.events(id, max(0, newest - 100), follow=False):
        _last_events.newest = event.id
        yield event


async def hold(server: Server, clients: int, ends: float, running_id: str, queued_id: str) -> dict[str, Any]:
    received: list[list[int]] = [[] for _ in range(clients)]
    tasks = [
        asyncio.create_task(follow(server.url, running_id, number % 2 == 1, events, ends))
        for number, events in enumerate(received)
    ]
    latencies: dict[str, list[float]] = {}
    memory: list[tuple[float, int]] = []
    began = time.monotonic()

    def ask() -> None:
        with Client(server.url) as client:
            calls = endpoints(client, running_id, queued_id)
            while time.monotonic() < ends:
                for name, call in calls.items():
                    latencies.setdefault(name, []).append(timed(call))
                    time.sleep(0.05)
                memory.append((time.monotonic() - began, server.memory()))

    asking = asyncio.create_task(asyncio.to_thread(ask))
    await asyncio.gather(asking, *tasks)
    return {"received": received, "latencies": latencies, "memory": memory}


def lost_events(client: Client, id: str, received: list[list[int]]) -> dict[str, int]:
    """What is missing, doubled or out of order up to the last event of each client."""
    stored = [event.id for event in client.events(id, follow=False)]
    missing = sum(len(set(stored[: stored.index(ids[-1]) + 1]) - set(ids)) for ids in received if ids)
    doubled = sum(len(ids) - len(set(ids)) for ids in received)
    disordered = sum(ids != sorted(ids) for ids in received)
    silent = sum(not ids for ids in received)
    return {"stored": len(stored), "lost": missing, "doubled": doubled, "disordered": disordered, "silent": silent}


def slope(points: list[tuple[float, int]]) -> float:
    """Bytes per minute, over the second half: what is cached at first is no leak."""
    late = points[len(points) // 2 :]
    if len(late) < 3:
        return 0.0
    return statistics.linear_regression(*zip(*late, strict=True)).slope * 60


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    server = Server(folder)
    report: dict[str, Any] = {"cores": os.cpu_count(), "load_average_before": os.getloadavg()[0]}
    try:
        starts = [server.start()]
        stops = []
        for _ in range(options.starts - 1):
            stops.append(server.stop())
            starts.append(server.start())
        report |= {"start_to_ready_seconds": starts, "stop_seconds": stops}
        print(f"start to ready: {', '.join(map(format_seconds, starts))}", flush=True)
        with Client(server.url) as client:
            report["cancel_seconds"] = measure_cancel(client, options.cancels)
            print(f"time to cancel: {', '.join(map(format_seconds, report['cancel_seconds']))}", flush=True)
            report["noop_jobs_per_minute"] = measure_noop(client, options.noops)
            print(f"no-op jobs: {report['noop_jobs_per_minute']:.1f} per minute", flush=True)
            one = client.submit("nets", "train", LONG, job_name="running", priority=100)
            wait_for(running(client, one.id), every=0.05)
            started = time.monotonic()
            queued = [client.submit(*NOOP, job_name=f"waiting {n}") for n in range(options.jobs)]
            report["submit_all_seconds"] = time.monotonic() - started
            first = {name: timed(call) for name, call in endpoints(client, one.id, queued[-1].id).items()}
            ends = time.monotonic() + options.minutes * 60
            held = asyncio.run(hold(server, options.clients, ends, one.id, queued[-1].id))
            waiting = client.jobs(state=["queued"], limit=1).total
            client.cancel(one.id)
            wait_for(lambda: client.job(one.id).state.ended)
            events = lost_events(client, one.id, held["received"])
    finally:
        server.stop()
    memory = held["memory"]
    return report | {
        "minutes": options.minutes,
        "jobs": options.jobs,
        "jobs_waiting_at_the_end": waiting,
        "clients": options.clients,
        "events": events | {"received": sum(map(len, held["received"]))},
        "latency_seconds": {
            name: {
                "requests": len(all),
                "first": first[name],
                "p50": percentile(all, 0.5),
                "p95": percentile(all, 0.95),
                "most": max(all),
            }
            for name, all in held["latencies"].items()
        },
        "memory_bytes": {
            "first": memory[0][1],
            "last": memory[-1][1],
            "most": max(size for _, size in memory),
            "per_minute": slope(memory),
        },
        "memory_over_time": [(round(seconds, 1), size) for seconds, size in memory[:: max(1, len(memory) // 60)]],
        "load_average_after": os.getloadavg()[0],
    }


def show(report: dict[str, Any]) -> str:
    memory, events = report["memory_bytes"], report["events"]
    starts, cancels = report["start_to_ready_seconds"], report["cancel_seconds"]
    head = format_table(
        [
            ("start to ready, first", format_seconds(starts[0])),
            ("start to ready, again", ", ".join(map(format_seconds, starts[1:]))),
            ("time to cancel", f"{format_seconds(statistics.median(cancels))}, at most {format_seconds(max(cancels))}"),
            ("no-op jobs per minute", f"{report['noop_jobs_per_minute']:.1f}"),
            ("held", f"{report['jobs']} jobs, {report['clients']} clients, {report['minutes']:g} minutes"),
            ("events received", f"{events['received']:,} of {events['stored']:,} stored, by all clients"),
            ("events lost, doubled, disordered", f"{events['lost']}, {events['doubled']}, {events['disordered']}"),
            ("clients without any", str(events["silent"])),
            ("server's memory", f"{format_bytes(memory['first'])} at first, {format_bytes(memory['last'])} at last"),
            ("its growth", f"{memory['per_minute'] / 1e6:+.2f} MB per minute, over the second half"),
            ("load average", f"{report['load_average_before']:.1f}, {report['load_average_after']:.1f}"),
        ]
    )
    rows = [
        (name, str(one["requests"]), *(format_seconds(one[key]) for key in ("p50", "p95", "most", "first")))
        for name, one in report["latency_seconds"].items()
    ]
    return f"{head}\n\n{format_table(rows, header=('endpoint', 'requests', 'p50', 'p95', 'most', 'first'))}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="that the jobs wait and the clients follow")
    parser.add_argument("--jobs", type=int, default=500, help="that wait")
    parser.add_argument("--clients", type=int, default=50, help="that follow events")
    parser.add_argument("--starts", type=int, default=4)
    parser.add_argument("--cancels", type=int, default=5)
    parser.add_argument("--noops", type=int, default=60, help="no-op jobs")
    parser.add_argument("--quick", action="store_true", help="about a minute: fewer of everything but of clients")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.minutes, options.jobs, options.starts, options.cancels, options.noops = 0.5, 100, 2, 2, 10
    folder = Path(tempfile.mkdtemp(prefix="bf-", dir="/tmp"))
    folder.chmod(0o755)  # the database server of root runs under another account, which must enter
    try:
        report = measure(options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(show(report))
    print(json.dumps(report["events"]))
    save(options.out, report, show(report))


if __name__ == "__main__":
    main()
