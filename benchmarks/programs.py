"""What a batt costs: plain calls of arc-dsl's own functions, and our executors beside them, on one machine.

    python benchmarks/programs.py [--arc-dsl PATH] [--operations 1620] [--samples 500] [--out results.json]

The baseline is honest: the batt's operations as plain, uncached calls in one Python function, each in its own try, no
logging and no type hints looked up when one fails. The functions are arc-dsl's own where PATH is a checkout of it,
otherwise ours. All contenders get the same random pairs of ARC-AGI-1, on one core, in turns; the times are scaled to
all 3,500 pairs. An operation that explodes in size would take the baseline minutes: a batt has no bound. Samples on
which our executor reports such an operation are left out for everybody, and counted.
"""

import argparse
import importlib
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from brimful import programs
from brimful.core.base.formatting import format_seconds, format_table
from brimful.core.memory import devices
from brimful.programs.data.tasks import Sample, samples_of
from brimful.programs.execution.failures import Category
from brimful.programs.execution.sequential import Arguments, Sequential
from brimful.programs.language.graph import Graph
from brimful.programs.language.program import Kind
from brimful.programs.language.types import constant_empty
from brimful.programs.vocabulary.choose import named
from saving import save

PAIRS = 3_500


def functions_of(path: Path | None) -> tuple[dict[str, Any], str]:
    """The functions that the baseline calls, by name, and whose they are."""
    if path is None:
        vocabulary = named("arc-dsl")
        return {name: operation.function for name, operation in vocabulary.items()}, "brimful's own functions"
    sys.path.insert(0, str(path))
    return vars(importlib.import_module("dsl")), "arc-dsl's own functions"


def plain_function(graph: Graph, functions: dict[str, Any]) -> Callable[..., Any]:
    """The graph as one Python function of plain calls, without a bound, a log or a cache."""
    lines = ["def plain(task_id, S, I, C):"]
    for index, node in enumerate(graph.nodes):
        args = [f"t{arg}" for arg in node.args]
        match node.kind:
            case Kind.INPUT | Kind.FUNCTION:
                lines.append(f"    t{index} = {node.name}")
                continue
            case Kind.CONSTANT:
                lines.append(f"    t{index} = {node.value!r}")
                continue
            case Kind.CALL:
                call, default = f"{args[0]}({', '.join(args[1:])})", "()"
            case _:
                assert node.operation is not None
                call = f"{node.name}({', '.join(args)})"
                value = node.operation.default
                default = "constant_empty" if value is constant_empty else repr(value)
        lines += ["    try:", f"        t{index} = {call}", "    except Exception:", f"        t{index} = {default}"]
    returned = ", ".join(f"t{record[-1]}" for program in graph.programs for record in program.outputs)
    lines.append(f"    return [{returned}]")
    namespace = {**functions, "constant_empty": constant_empty}
    exec("\n".join(lines), namespace)
    return namespace["plain"]


def bounded(executor: Sequential, samples: list[Sample]) -> tuple[list[Sample], int]:
    """The samples on which no operation explodes, and how many there are of the others."""
    kept = []
    for sample in samples:
        evaluation = executor.evaluate(Arguments(sample.task, sample.S, sample.I, sample.C))
        if all(failure.category is not Category.SIZE for failure in evaluation.failures.values()):
            kept.append(sample)
    return kept, len(samples) - len(kept)


def in_turns(contenders: dict[str, Callable[[Sample], Any]], samples: list[Sample], rounds: int) -> dict[str, float]:
    """Seconds per sample of every contender: the best of some rounds over all samples, in turns."""
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, run in contenders.items():
            started = time.perf_counter()
            for sample in samples:
                run(sample)
            best[name] = min(best[name], (time.perf_counter() - started) / len(samples))
    return best


def agreement(plain: Callable[[Sample], Any], executor: Sequential, graph: Graph, samples: list[Sample]) -> int:
    """How many outputs differ between the baseline and our executor; ties that the order of sets decides may."""
    nodes = [record[-1] for program in graph.programs for record in program.outputs]
    differing = 0
    for sample in samples:
        evaluation = executor.evaluate(Arguments(sample.task, sample.S, sample.I, sample.C))
        differing += sum(a != evaluation.values[b] for a, b in zip(plain(sample), nodes, strict=True))
    return differing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arc-dsl", type=Path, help="a checkout of arc-dsl, whose functions the baseline calls")
    parser.add_argument("--operations", type=int, default=1620)
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()

    batt = programs.loads(programs.generate(options.operations, options.seed))
    graph = batt.merge()
    executor = Sequential(graph)
    everything = samples_of(programs.read_tasks("arcagi", "all"))
    chosen = random.Random(options.seed).sample(everything, min(options.samples, len(everything)))
    samples, left_out = bounded(executor, sorted(chosen, key=lambda sample: sample.task))
    functions, whose = functions_of(options.arc_dsl)
    plain, emitted = plain_function(graph, functions), programs.compile(batt).batt
    contenders: dict[str, Callable[[Sample], Any]] = {
        f"plain calls of {whose}": lambda sample: plain(sample.task, sample.S, sample.I, sample.C),
        "brimful, sequential": lambda sample: executor.evaluate(Arguments(sample.task, sample.S, sample.I, sample.C)),
        "brimful, emitted module": lambda sample: emitted(sample.task, sample.S, sample.I, sample.C),
    }
    differing = agreement(next(iter(contenders.values())), executor, graph, samples)
    seconds = in_turns(contenders, samples, options.rounds)
    baseline = next(iter(seconds.values()))
    calls = Counter(node.name or node.kind.value for node in graph.nodes if node.computed)
    device = devices.model_name(devices.resolve("cpu"))
    rows = [
        (name, f"{spent * 1e3:.2f} ms", format_seconds(spent * PAIRS), f"{baseline / spent:.2f}x")
        for name, spent in seconds.items()
    ]
    text = "\n".join(
        [
            f"A batt of {graph.merged:,} operations on {len(samples)} random pairs of ARC-AGI-1, one core of {device}",
            f"({left_out} more were left out for all: an operation explodes there; {differing} of "
            f"{len(samples) * len(graph.programs[0].outputs):,} outputs differ by the order of sets)",
            "",
            format_table(rows, ("", "per sample", f"{PAIRS:,} pairs", "speed")),
            "",
            "Its most frequent operations: " + ", ".join(f"{name} {count}" for name, count in calls.most_common(12)),
        ]
    )
    print(text)
    result = {
        "operations": graph.merged,
        "samples": len(samples),
        "left_out": left_out,
        "outputs_that_differ": differing,
        "device": device,
        "seconds_per_sample": seconds,
    }
    if options.out is not None:
        save(options.out, result, text)


if __name__ == "__main__":
    main()
