"""The service under load: jobs queued, clients that follow events, and how long everything takes meanwhile.

    python benchmarks/service.py [--minutes 10] [--jobs 500] [--clients 50] [--out benchmarks/results/service-cpu.json]
    python benchmarks/service.py --quick        # about a minute
    chrt -r 1 python benchmarks/service.py --only starts    # on a busy machine: before all others

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

What is measured is printed as it goes, and saved after every part and every minute: one that is interrupted (Ctrl-C,
SIGTERM) leaves what it has, with the key "interrupted".
"""

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
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
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
        )
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


class Held:
    """What is measured while the jobs wait and the clients follow."""

    def __init__(self, server: Server, clients: int, minutes: float) -> None:
        self._server = server
        self.received: list[list[int]] = [[] for _ in range(clients)]
        self.latencies: dict[str, list[float]] = {}
        self.memory: list[tuple[float, int]] = [(0.0, server.memory())]
        self.each_minute = [self.memory[0][1]]
        self.began = time.monotonic()
        self.ends = self.began + minutes * 60
        self._stopped = threading.Event()

    async def hold(self, running_id: str, queued_id: str, each_minute: Callable[[], None]) -> None:
        follows = [
            follow(self._server.url, running_id, number % 2 == 1, events, self.ends)
            for number, events in enumerate(self.received)
        ]
        asks = asyncio.to_thread(self._ask, running_id, queued_id)
        try:
            await asyncio.gather(asks, self._report(each_minute), *follows)
        finally:
            self._stopped.set()

    def _ask(self, running_id: str, queued_id: str) -> None:
        with Client(self._server.url) as client:
            calls = endpoints(client, running_id, queued_id)
            while time.monotonic() < self.ends and not self._stopped.is_set():
                for name, call in calls.items():
                    self.latencies.setdefault(name, []).append(timed(call))
                    if self._stopped.wait(0.05):
                        break
                self.memory.append((time.monotonic() - self.began, self._server.memory()))

    async def _report(self, each_minute: Callable[[], None]) -> None:
        while (left := self.ends - time.monotonic()) > 0:
            await asyncio.sleep(min(60.0, left))
            self.each_minute.append(self._server.memory())
            slowest = max(self.latencies, key=lambda name: percentile(self.latencies[name], 0.95))
            print(
                f"{(time.monotonic() - self.began) / 60:.1f} minutes: {sum(map(len, self.received)):,} events, "
                f"{sum(map(len, self.latencies.values())):,} requests, server {format_bytes(self.each_minute[-1])}, "
                f"slowest {slowest} (p95 {format_seconds(percentile(self.latencies[slowest], 0.95))})",
                flush=True,
            )
            await asyncio.to_thread(each_minute)

    def summary(self, first: dict[str, float]) -> dict[str, Any]:
        return {
            "latency_seconds": {
                name: {
                    "requests": len(all),
                    "first": first[name],
                    "p50": percentile(all, 0.5),
                    "p95": percentile(all, 0.95),
                    "most": max(all),
                }
                for name, all in self.latencies.items()
            },
            "memory_bytes": {
                "first": self.memory[0][1],
                "last": self.memory[-1][1],
                "most": max(size for _, size in self.memory),
                "each_minute": self.each_minute,
                "per_minute": slope(self.memory),
            },
            "events_received": sum(map(len, self.received)),
        }


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


def measure(options: argparse.Namespace, folder: Path, report: dict[str, Any], keep: Callable[[], None]) -> None:
    """Adds to the report, part by part, and has it kept after each."""
    server = Server(folder)
    try:
        measure_starts(server, options.starts, report)
        keep()
        if options.only == "starts":
            return
        with Client(server.url) as client:
            report["cancel_seconds"] = measure_cancel(client, options.cancels)
            print(f"time to cancel: {', '.join(map(format_seconds, report['cancel_seconds']))}", flush=True)
            keep()
            report["noop_jobs_per_minute"] = measure_noop(client, options.noops)
            print(f"no-op jobs: {report['noop_jobs_per_minute']:.1f} per minute", flush=True)
            keep()
            measure_held(server, client, options, report, keep)
    finally:
        server.stop()
    report["load_average_after"] = os.getloadavg()[0]


def measure_starts(server: Server, count: int, report: dict[str, Any]) -> None:
    starts, stops = [server.start()], []
    realtime = os.sched_getscheduler(0) in (os.SCHED_RR, os.SCHED_FIFO)
    report |= {"start_load_average": os.getloadavg()[0], "start_priority": "real-time" if realtime else "normal"}
    print(f"start to ready, the first, which makes the database: {format_seconds(starts[0])}", flush=True)
    for _ in range(count - 1):
        stops.append(server.stop())
        starts.append(server.start())
        print(f"start to ready: {format_seconds(starts[-1])}", flush=True)
    report |= {"start_to_ready_seconds": starts, "stop_seconds": stops, "memory_at_start_bytes": server.memory()}


def measure_held(
    server: Server, client: Client, options: argparse.Namespace, report: dict[str, Any], keep: Callable[[], None]
) -> None:
    one = client.submit("nets", "train", LONG, job_name="running", priority=100)
    wait_for(running(client, one.id), every=0.05)
    started = time.monotonic()
    queued = [client.submit(*NOOP, job_name=f"waiting {n}") for n in range(options.jobs)]
    report["submit_all_seconds"] = time.monotonic() - started
    print(f"{options.jobs} jobs queued in {format_seconds(report['submit_all_seconds'])}", flush=True)
    first = {name: timed(call) for name, call in endpoints(client, one.id, queued[-1].id).items()}
    held = Held(server, options.clients, options.minutes)

    def keep_so_far() -> None:
        report.update(held.summary(first))
        keep()

    report |= {"minutes": options.minutes, "jobs": options.jobs, "clients": options.clients}
    asyncio.run(held.hold(one.id, queued[-1].id, keep_so_far))
    report |= held.summary(first)
    report["jobs_waiting_at_the_end"] = client.jobs(state=["queued"], limit=1).total
    client.cancel(one.id)
    wait_for(lambda: client.job(one.id).state.ended)
    events = lost_events(client, one.id, held.received)
    report["events"] = events | {"received": report["events_received"]}


def show(report: dict[str, Any]) -> str:
    lines = [("load average", ", ".join(f"{report[name]:.1f}" for name in report if name.startswith("load_average")))]
    if starts := report.get("start_to_ready_seconds"):
        lines.append(("start to ready, first (makes the database)", format_seconds(starts[0])))
        lines.append(("start to ready, again", ", ".join(map(format_seconds, starts[1:]))))
        if "start_priority" in report:
            under = f"{report['start_priority']} priority, load average {report['start_load_average']:.1f}"
            lines.append(("both measured at", under))
    if cancels := report.get("cancel_seconds"):
        median = format_seconds(statistics.median(cancels))
        lines.append(("time to cancel", f"{median}, at most {format_seconds(max(cancels))}"))
    if noops := report.get("noop_jobs_per_minute"):
        lines.append(("no-op jobs per minute", f"{noops:.1f}"))
    if "minutes" in report:
        held = f"{report['jobs']} jobs, {report['clients']} clients, {report['minutes']:g} minutes"
        lines.append(("held", held))
    if events := report.get("events"):
        lines.append(("events received", f"{events['received']:,} of {events['stored']:,} stored, by all clients"))
        lost = f"{events['lost']}, {events['doubled']}, {events['disordered']}"
        lines += [("events lost, doubled, disordered", lost), ("clients without any", str(events["silent"]))]
    if memory := report.get("memory_bytes"):
        ends = f"{format_bytes(memory['first'])} at first, {format_bytes(memory['last'])} at last"
        lines.append(("server's memory", ends))
        lines.append(("its growth", f"{memory['per_minute'] / 1e6:+.2f} MB per minute, over the second half"))
    if "interrupted" in report:
        lines.append(("interrupted", report["interrupted"]))
    rows = [
        (name, str(one["requests"]), *(format_seconds(one[key]) for key in ("p50", "p95", "most", "first")))
        for name, one in report.get("latency_seconds", {}).items()
    ]
    table = format_table(rows, header=("endpoint", "requests", "p50", "p95", "most", "first")) if rows else ""
    return f"{format_table(lines)}\n\n{table}".rstrip()


def interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="that the jobs wait and the clients follow")
    parser.add_argument("--jobs", type=int, default=500, help="that wait")
    parser.add_argument("--clients", type=int, default=50, help="that follow events")
    parser.add_argument("--starts", type=int, default=4)
    parser.add_argument("--cancels", type=int, default=5)
    parser.add_argument("--noops", type=int, default=60, help="no-op jobs")
    parser.add_argument("--quick", action="store_true", help="about a minute: fewer of everything but of clients")
    parser.add_argument("--only", choices=("starts",))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.minutes, options.jobs, options.starts, options.cancels, options.noops = 0.5, 100, 2, 2, 10
    folder = Path(tempfile.mkdtemp(prefix="bf-", dir="/tmp"))
    folder.chmod(0o755)  # the database server of root runs under another account, which must enter
    report: dict[str, Any] = {"cores": os.cpu_count(), "load_average_before": os.getloadavg()[0]}
    signal.signal(signal.SIGTERM, interrupt)
    try:
        measure(options, folder, report, lambda: save(options.out, report, show(report)))
    except BaseException as error:
        report["interrupted"] = f"{type(error).__name__}: {error}"
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        print(show(report), flush=True)
        save(options.out, report, show(report))


if __name__ == "__main__":
    main()
