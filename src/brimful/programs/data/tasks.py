"""Tasks, their pairs of grids, and the samples that programs run on: one per pair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.base.arguments import check_type
from ...core.base.errors import InputError

Grid = tuple[tuple[int, ...], ...]

SIDE, COLORS = 30, 10
"""The longest side of a grid of ARC, and its number of colors."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An input grid and its output; None where the output is not known.

    Attributes:
        problem: what is wrong with it, if something is: it is then flagged, and not run.
    """

    input: Grid
    output: Grid | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One task of ARC.

    Attributes:
        id: its name.
        train: the demonstration pairs.
        test: the pairs to be solved.
        split: "training" or "evaluation".
    """

    id: str
    train: tuple[Pair, ...] = field(repr=False)
    test: tuple[Pair, ...] = field(repr=False)
    split: str = "training"

    @classmethod
    def of(cls, name: str, task: Any, split: str = "training", solutions: Any = None) -> Task:
        """A task as its JSON has it: {"train": [{"input": grid, "output": grid}, ...], "test": [...]}.

        Args:
            solutions: the outputs of the test pairs, where they are stored apart.
        """
        if not isinstance(task, dict) or not all(isinstance(task.get(part), list) for part in ("train", "test")):
            raise InputError(f'task {name} is no task of ARC; it must have the lists "train" and "test" of pairs')
        outputs = solutions if isinstance(solutions, list) else []
        test = [
            {**pair, "output": outputs[index]} if isinstance(pair, dict) and index < len(outputs) else pair
            for index, pair in enumerate(task["test"])
        ]
        return cls(name, tuple(map(_pair, task["train"])), tuple(map(_pair, test)), split)


def as_grid(rows: Any) -> Grid:
    """Rows of numbers as a grid.

    Raises:
        InputError: they are no grid of ARC.
    """
    try:
        grid = tuple(tuple(row) for row in (rows.tolist() if hasattr(rows, "tolist") else rows))
    except TypeError as error:
        raise InputError(f"a grid must be a list of rows of numbers; this is a {type(rows).__name__}") from error
    if not grid or not grid[0]:
        raise InputError("a grid is empty; it needs at least one cell")
    widths = {len(row) for row in grid}
    if len(widths) > 1:
        raise InputError(f"a grid has rows of {min(widths)} to {max(widths)} cells; all rows must be of one length")
    if max(len(grid), *widths) > SIDE:
        raise InputError(f"a grid is {len(grid)} x {len(grid[0])}; at most {SIDE} x {SIDE} is allowed")
    for row in grid:
        if set(map(type, row)) != {int} or min(row) < 0 or max(row) >= COLORS:
            color = next(color for color in row if type(color) is not int or not 0 <= color < COLORS)
            raise InputError(f"a grid has the color {color!r}; colors are whole numbers from 0 to {COLORS - 1}")
    return grid


def _pair(pair: Any) -> Pair:
    if not isinstance(pair, dict) or "input" not in pair:
        return Pair((), None, 'a pair must be {"input": grid, "output": grid}')
    try:
        output = pair.get("output")
        return Pair(as_grid(pair["input"]), None if output is None else as_grid(output))
    except InputError as error:
        return Pair((), None, str(error))


@dataclass(frozen=True, slots=True)
class Sample:
    """What programs run on: one pair of a task.

    Attributes:
        task: its id.
        kind, index: "train" or "test", and which of those pairs.
        S: the task's demonstrations, ((input, output), ...).
        I: the input grid.
        C: the reference grid: the output where it is known, else ().
        problem: why it is flagged and not run; None where it is fine.
    """

    task: str
    kind: str
    index: int
    S: tuple[tuple[Grid, Grid], ...] = field(repr=False)
    I: Grid = field(repr=False)  # noqa: E741
    C: Grid = field(repr=False)
    problem: str | None = None


def samples_of(tasks: Iterable[Task]) -> list[Sample]:
    """The samples of tasks: all demonstration pairs, then all test pairs of each task.

    Raises:
        InputError: two tasks have one id.
    """
    samples, seen = list[Sample](), set[str]()
    for task in tasks:
        if task.id in seen:
            raise InputError(f"the task {task.id} is there twice; ids of tasks must differ")
        seen.add(task.id)
        shown = tuple((pair.input, pair.output) for pair in task.train if pair.output is not None)
        broken = next((f"a demonstration: {pair.problem}" for pair in task.train if pair.problem), None)
        for kind, pairs in (("train", task.train), ("test", task.test)):
            for index, pair in enumerate(pairs):
                problem = pair.problem or broken
                samples.append(Sample(task.id, kind, index, shown, pair.input, pair.output or (), problem))
    return samples


def as_samples(given: Sequence[Any]) -> list[Sample]:
    """Tasks, samples, or (task_id, S, I, C) as samples."""
    wanted = "give tasks, (task_id, S, I, C) per sample, or the name of a dataset"
    check_type(given, Iterable, wanted)
    try:
        items = list(given)
    except TypeError as error:  # an array or tensor without axes
        raise InputError(f"samples are of type {type(given).__name__}: {error}; {wanted}") from error
    if all(isinstance(item, Task) for item in items):
        return samples_of(items)
    if all(isinstance(item, Sample) for item in items):
        return items
    samples = list[Sample]()
    for number, item in enumerate(items):
        if not isinstance(item, tuple) or len(item) != 4:
            raise InputError(f"sample {number} is a {type(item).__name__}; give tasks, or (task_id, S, I, C)")
        name, shown, grid, reference = item
        try:
            demonstrations = tuple((as_grid(before), as_grid(after)) for before, after in shown)
            target = () if reference is None or len(reference) == 0 else as_grid(reference)
            samples.append(Sample(str(name), "test", number, demonstrations, as_grid(grid), target))
        except (InputError, TypeError, ValueError) as error:
            samples.append(Sample(str(name), "test", number, (), (), (), str(error)))
    return samples
