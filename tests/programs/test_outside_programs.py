"""Programs that others wrote, by both executors: arc-dsl's solvers and stored batts, which are no part of this package.

BRIMFUL_PROGRAMS=solvers.py:batt_gpu_large.py make soak
"""

import os
from pathlib import Path

import pytest

from brimful import programs
from brimful.programs.execution.arguments import Arguments
from brimful.programs.executors.choice import CPU
from brimful.programs.executors.comparison import first_difference

from .helpers.small import arc_samples

FILES = [Path(name) for name in os.environ.get("BRIMFUL_PROGRAMS", "").split(os.pathsep) if name]
PARTS = 10


@pytest.mark.soak
@pytest.mark.skipif(not FILES, reason="BRIMFUL_PROGRAMS names no file of programs, such as arc-dsl's solvers.py")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_both_executors_agree(file: Path, part: int):
    samples = arc_samples(100, "all", cells=400)[part::PARTS]
    given = [Arguments(of.task, of.S, of.I, of.C) for of in samples]
    graph = programs.load(file).merge()
    for on_error in ("default", "propagate"):
        assert first_difference(graph, on_error, given, CPU) is None
