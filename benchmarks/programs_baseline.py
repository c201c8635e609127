"""The baseline of benchmarks/programs.py: a batt as plain, uncached calls in one Python function; and the samples."""

import importlib
import itertools
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from brimful import programs
from brimful.programs.data.tasks import Grid, Sample, samples_of
from brimful.programs.execution.arguments import Arguments
from brimful.programs.execution.failures import Category
from brimful.programs.execution.sequential import Sequential
from brimful.programs.language.graph import Graph
from brimful.programs.language.program import Kind
from brimful.programs.language.types import constant_empty
from brimful.programs.vocabulary.choose import named


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
        evaluation = executor.evaluate(arguments(sample))
        if all(failure.category is not Category.SIZE for failure in evaluation.failures.values()):
            kept.append(sample)
    return kept, len(samples) - len(kept)


def in_turns(contenders: dict[str, Callable[[Sample], Any]], samples: list[Sample], rounds: int) -> dict[str, float]:
    """Seconds of processor time per sample of every contender: the best of some rounds over all samples, each sample by
    all contenders in turn, so that what else the machine does falls on all of them alike."""
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        spent = dict.fromkeys(contenders, 0.0)
        for number, sample in enumerate(samples):
            for name in _turned(list(contenders), number):
                started = time.process_time()
                contenders[name](sample)
                spent[name] += time.process_time() - started
            if number % 50 == 49:
                print(f"{number + 1} of {len(samples)} samples", file=sys.stderr, flush=True)
        best = {name: min(best[name], seconds / len(samples)) for name, seconds in spent.items()}
    return best


def _turned(names: list[str], by: int) -> list[str]:
    """Another of them first every time: the first of a sample finds its data outside of the caches."""
    at = by % len(names)
    return names[at:] + names[:at]


def agreement(plain: Callable[[Sample], Any], executor: Sequential, graph: Graph, samples: list[Sample]) -> int:
    """How many outputs differ between the baseline and our executor; ties that the order of sets decides may."""
    nodes = [record[-1] for program in graph.programs for record in program.outputs]
    differing = 0
    for sample in samples:
        evaluation = executor.evaluate(arguments(sample))
        differing += sum(a != evaluation.values[b] for a, b in zip(plain(sample), nodes, strict=True))
    return differing


def arguments(sample: Sample) -> Arguments:
    return Arguments(sample.task, sample.S, sample.I, sample.C)


def read_samples(tasks: str, split: str = "all") -> list[Sample]:
    """The pairs of tasks: a dataset by its name, or JSON files (see `programs.read_tasks`)."""
    return [sample for sample in samples_of(programs.read_tasks(tasks, split)) if sample.problem is None]


def chosen(samples: list[Sample], count: int, seed: int) -> list[Sample]:
    """So many samples: random ones of those that there are, those of a task together; beyond these all of them again,
    with other colors every time (black stays black)."""
    if count <= len(samples):
        return sorted(random.Random(seed).sample(samples, count), key=lambda sample: sample.task)
    rounds = (samples if number == 0 else _recolored(samples, number) for number in itertools.count())
    return list(itertools.islice(itertools.chain.from_iterable(rounds), count))


def _recolored(samples: list[Sample], number: int) -> list[Sample]:
    colors = [0, *random.Random(number).sample(range(1, 10), 9)]

    def grid(of: Grid) -> Grid:
        return tuple(tuple(colors[cell] for cell in row) for row in of)

    shown: dict[int, Any] = {}
    for sample in samples:
        if id(sample.S) not in shown:
            shown[id(sample.S)] = tuple((grid(before), grid(after)) for before, after in sample.S)
    return [
        Sample(f"{of.task}-{number}", of.kind, of.index, shown[id(of.S)], grid(of.I), grid(of.C) if of.C else ())
        for of in samples
    ]
