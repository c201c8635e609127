"""Small runs: made-up tasks and solvers, some of which fail, and samples of ARC."""

import functools
import json
import random
from pathlib import Path
from typing import Any

from brimful import programs
from brimful.programs.data.tasks import samples_of
from brimful.programs.generate import SOLVERS

TEXT = """
def solve_mirror(I):
    x1 = vmirror(I)
    return x1

def solve_other(I):
    x1 = vmirror(I)
    x2 = hmirror(x1)
    return x2

def solve_fails(I):
    x1 = first(I)
    x2 = objects(I, T, F, T)
    x3 = argmax(x2, size)
    x4 = recolor(TWO, x3)
    x5 = paint(I, x4)
    return x5
"""
"""On an input without colors the third fails at argmax."""


def grid(rng: random.Random, colors: int = 10) -> Any:
    height, width = rng.randint(2, 5), rng.randint(2, 5)
    return tuple(tuple(rng.randrange(colors) for _ in range(width)) for _ in range(height))


def mirrored(of: Any) -> Any:
    return tuple(row[::-1] for row in of)


def task(name: str, seed: int, colors: int = 10, pairs: int = 3) -> programs.Task:
    """A task that `solve_mirror` solves; the last test pair has no target."""
    rng = random.Random(seed)
    grids = [grid(rng, colors) for _ in range(pairs + 2)]
    made = [programs.Pair(one, mirrored(one)) for one in grids[:-1]]
    return programs.Task(name, tuple(made[:pairs]), (made[pairs], programs.Pair(grids[-1], None)))


def tasks() -> list[programs.Task]:
    return [task("mirror", 0), task("blank", 1, colors=1), task("third", 2)]


def small(**options: Any) -> programs.ProgramResult:
    """A run of the three solvers on three tasks."""
    return programs.run(programs.loads(TEXT), tasks(), **{"device": "cpu", "progress": False, **options})


@functools.cache
def own_solvers() -> programs.Programs:
    return programs.load(SOLVERS)


@functools.cache
def arc_tasks(split: str) -> tuple[programs.Task, ...]:
    """ARC-AGI-1, read once."""
    return tuple(programs.read_tasks("arcagi", split))


def arc_samples(count: int, split: str = "training", cells: int = 900, seed: int = 0) -> list[programs.Sample]:
    """Random pairs with inputs of at most so many cells, those of a task together."""
    samples = [sample for sample in samples_of(arc_tasks(split)) if len(sample.I) * len(sample.I[0]) <= cells]
    chosen = sorted(random.Random(seed).sample(range(len(samples)), min(count, len(samples))))
    return [samples[index] for index in chosen]


def written(folder: Path) -> Path:
    """The solvers as a file."""
    path = folder / "solvers.py"
    path.write_text(TEXT)
    return path


def written_tasks(folder: Path) -> Path:
    """The tasks as a folder of JSON files."""
    folder.mkdir(parents=True, exist_ok=True)
    for made in tasks():
        pairs = {
            part: [{"input": pair.input} | ({"output": pair.output} if pair.output else {}) for pair in of]
            for part, of in (("train", made.train), ("test", made.test))
        }
        (folder / f"{made.id}.json").write_text(json.dumps(pairs))
    return folder
