"""`map` on a Ray cluster of this machine against one local process: overhead, speed-up of two workers, and starting.

    python benchmarks/cluster.py [--only overhead speedup start] [--out benchmarks/results/cluster-cpu.json]

overhead   batches that sleep 1, 10 and 100 ms, one worker: what a batch takes beyond that, in the steady state (from
           the beginning of one batch to that of the last), in this process, in a worker process, and in an actor
speedup    batches that compute for about 1, 10 and 100 ms: batches per second of one local process, and of two worker
           processes and of two actors of one thread each; and of two processes that only compute, side by side: two
           cores of one machine share caches, memory and clock, so that is what there is to be had
start      seconds to import Ray, to start a cluster of this machine, of a first and a second map of one batch on it,
           and of a map over two worker processes without Ray

The best of some rounds, each over all contenders in turn.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import torch

import brimful
from brimful.core.base.formatting import format_table
from brimful.core.memory import devices
from brimful.core.runs.events import BatchDone, Event
from saving import save

SIZE = 8  # items of a batch
LENGTHS = {0.001: 1000, 0.01: 300, 0.1: 40}  # seconds of a batch, and how many
WHERE: dict[str, dict[str, Any]] = {
    "one process": {"device": "cpu"},
    "a worker process": {"device": "cpu", "timeout": 600},
    "an actor": {"device": "cpu", "cluster": "ray"},
    "two worker processes": {"device": "cpu,cpu"},
    "two actors": {"device": "cpu,cpu", "cluster": "ray"},
}


class Sleep:
    """A batch that takes so many seconds, and no processor; it returns when it began, by the machine's clock."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        began = time.perf_counter()
        time.sleep(self.seconds)
        return torch.full((len(x),), began, dtype=torch.float64)


class Compute:
    """A batch that multiplies small matrices so many times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        matrix = torch.eye(64) + 0.001
        for _ in range(self.times):
            matrix = torch.tanh(matrix @ matrix)
        return x + matrix[0, 0] * 0


def per_batch(function: Callable[[Any], Any], count: int, **options: Any) -> float:
    """Seconds per batch between the first and the last that came back; several may come together."""
    times: list[tuple[float, int]] = []

    def progress(event: Event) -> None:
        if isinstance(event, BatchDone):
            times.append((time.perf_counter(), event.done // SIZE))

    items, fixed = torch.zeros(SIZE * count, 4), {"batch_size": SIZE, "budget": "500MB"}
    result = brimful.map(function, items, progress=progress, **fixed, **options)
    assert result.ok.all()
    (last, whole), (first, skipped) = times[-1], next(seen for seen in times if seen[1] >= count // 5)
    assert whole == count  # the first fifth is left out: workers do not all begin at once
    return (last - first) / (whole - skipped)


def between_starts(function: Callable[[Any], Any], count: int, **options: Any) -> float:
    """Seconds per batch of a function that returns when it began; the first fifth is left out."""
    items = torch.zeros(SIZE * count, 4)
    result = brimful.map(function, items, progress=False, batch_size=SIZE, budget="500MB", **options)
    assert result.ok.all()
    began = result.values[::SIZE][count // 5 :]
    return float(began[-1] - began[0]) / (len(began) - 1)


def best(
    rounds: int,
    function: Callable[[Any], Any],
    count: int,
    places: tuple[str, ...],
    measure: Callable[..., float] = per_batch,
) -> dict[str, float]:
    """Seconds per batch, by where it runs."""
    measured: dict[str, list[float]] = {place: [] for place in places}
    for _ in range(rounds):
        for place in places:
            measured[place].append(measure(function, count, **WHERE[place]))
    return {place: min(times) for place, times in measured.items()}


def overhead(rounds: int) -> list[dict[str, Any]]:
    rows = []
    for length, count in LENGTHS.items():
        taken = best(rounds, Sleep(length), count, ("one process", "a worker process", "an actor"), between_starts)
        one = taken["one process"]
        for place, seconds in taken.items():
            shown = {"overhead_ms": 1e3 * (seconds - length), "throughput_of_one_process": one / seconds}
            rows.append({"batch_ms": 1e3 * length, "where": place, **shown})
    return rows


def speedup(rounds: int) -> list[dict[str, Any]]:
    torch.set_num_threads(1)
    Compute(2000)(torch.zeros(1))  # the first call of anything takes longer
    started = time.perf_counter()
    Compute(20_000)(torch.zeros(1))
    each = (time.perf_counter() - started) / 20_000
    rows = []
    for length, count in LENGTHS.items():
        function = Compute(round(length / each))
        taken = best(rounds, function, count, ("one process", "two worker processes", "two actors"))
        taken["two processes, no engine"] = min(side_by_side(function, count) for _ in range(rounds))
        one = taken["one process"]
        for place, seconds in taken.items():
            shown = {"batches_per_second": 1 / seconds, "speedup": one / seconds}
            rows.append({"batch_ms": 1e3 * length, "where": place, **shown})
    return rows


def side_by_side(function: Compute, count: int) -> float:
    """Seconds per batch of two processes that compute at the same time, and do nothing else."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        list(pool.map(function, [torch.zeros(SIZE, 4)] * 8))  # both have begun
        taken = list(pool.map(alone, [function] * 2, [count // 2] * 2))
    return max(taken) / (count // 2 * 2)


def alone(function: Compute, count: int) -> float:
    """Seconds of so many batches."""
    items = torch.zeros(SIZE, 4)
    started = time.perf_counter()
    for _ in range(count):
        function(items)
    return time.perf_counter() - started


def start() -> dict[str, float]:
    """Before anything else: Ray is imported and started by it."""
    seconds: dict[str, float] = {}

    def timed(name: str, call: Callable[[], Any]) -> None:
        began = time.perf_counter()
        call()
        seconds[name] = time.perf_counter() - began

    def one(**options: Any) -> None:
        brimful.map(Sleep(0.0), torch.zeros(8, 4), batch_size=8, budget="500MB", progress=False, **options)

    timed("import ray", lambda: __import__("ray"))
    timed("a cluster of this machine", connect)
    timed("first map on it, two actors", lambda: one(**WHERE["two actors"]))
    timed("second map on it, two actors", lambda: one(**WHERE["two actors"]))
    timed("a map over two worker processes, without Ray", lambda: one(**WHERE["two worker processes"]))
    return seconds


def connect() -> None:
    import ray

    if not ray.is_initialized():
        options: Any = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
        ray.init(address="local", num_cpus=2, object_store_memory=200 * 2**20, **options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=("overhead", "speedup", "start"), default=())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    chosen = arguments.only or ("start", "overhead", "speedup")
    report: dict[str, Any] = {"device": devices.model_name(torch.device("cpu")), "cores": os.cpu_count()}
    report["load"] = [round(value, 1) for value in os.getloadavg()]  # of the machine, before anything is measured
    texts = []
    if "start" in chosen:
        report["start"] = start()
        texts.append(format_table([(name, f"{taken:.2f} s") for name, taken in report["start"].items()]))
    connect()
    for name, measure in (("overhead", overhead), ("speedup", speedup)):
        if name in chosen:
            rows = report[name] = measure(arguments.rounds)
            table = [[f"{value:.3g}" if isinstance(value, float) else value for value in row.values()] for row in rows]
            texts.append(format_table(table, header=[key.replace("_", " ") for key in rows[0]]))
        save(arguments.out, report, "\n\n".join(texts))  # after each part: they take minutes
    print("\n\n".join(texts))
    import ray

    ray.shutdown()


if __name__ == "__main__":
    main()
