"""The same answer by every way: merged or not, interpreted or emitted, in one process or another."""

import json
import subprocess
from typing import Any

import pytest

from brimful import programs
from brimful.programs.execution.arguments import Arguments
from brimful.programs.execution.encoding import encode
from brimful.programs.execution.sequential import Sequential
from brimful.programs.generate import SOLVERS
from brimful.programs.language.program import Form

from ..helpers.paths import command, environment
from .helpers.agreement import digest, work
from .helpers.small import arc_samples

SOME = ["counting.py", "drawing.py"]
EVERY = sorted(file.name for file in SOLVERS.glob("[a-z]*.py"))
PARTS = 28  # of all pairs, so that every core has some of them


def compare(samples: list[Any], loaded: programs.Programs) -> None:
    """The merged graph, the programs by themselves, and the emitted module, on every sample."""
    whole, apart, module = Sequential(loaded.merge()), Sequential(loaded.merge(share=False)), programs.compile(loaded)
    assert whole.graph.merged < apart.graph.merged
    failed = 0
    for sample in samples:
        arguments = Arguments(sample.task, sample.S, sample.I, sample.C)
        one, other = whole.evaluate(arguments), apart.evaluate(arguments)
        assert whole.outcomes(one) == apart.outcomes(other)
        failed += len(one.failures)
        o, s = module.batt(sample.task, sample.S, sample.I, sample.C)
        expected_o, expected_s = list[Any](), list[Any]()
        for number, (a, b) in enumerate(zip(whole.graph.programs, apart.graph.programs, strict=True)):
            outputs, scores = whole.result(one, a)
            assert encode(tuple(outputs)) == encode(tuple(apart.result(other, b)[0]))
            expected_o += [(number, False, a.name, outputs[0][0])] if a.form is Form.SOLVER else outputs
            expected_s += scores
        assert encode((tuple(o), tuple(s))) == encode((tuple(expected_o), tuple(expected_s)))
    assert failed > len(samples)


def test_merged_unmerged_and_emitted_agree_on_sixty_samples():
    compare(arc_samples(60, "training", 40), work(SOME, 150))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_merged_unmerged_and_emitted_agree_on_all_pairs(part: int):
    samples = arc_samples(10_000, "all")
    assert len(samples) == 3_500
    compare(samples[part::PARTS], work(EVERY, 1_600))


def of_processes(order: dict[str, Any], *seeds: int) -> set[str]:
    """What processes with these hash seeds say."""
    started = [
        subprocess.Popen(
            [*command("tests.programs.helpers.agreement"), json.dumps(order)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(PYTHONHASHSEED=str(seed)),
        )
        for seed in seeds
    ]
    said = {process.communicate()[0].strip() for process in started}
    assert all(process.returncode == 0 for process in started)
    return said


def test_two_hash_seeds_give_the_same_bytes():
    order = {"samples": 12, "split": "training", "cells": 40, "files": SOME, "operations": 100}
    assert of_processes(order, 1) == {digest(**order)}  # this process has a seed of its own


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_two_hash_seeds_give_the_same_bytes_on_all_pairs(part: int):
    order = {"samples": 10_000, "split": "all", "cells": 900, "files": EVERY, "operations": 1_600}
    assert len(of_processes({**order, "part": [part, PARTS]}, 1, 2)) == 1
