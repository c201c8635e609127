"""Calls whose failure the number and the form of their arguments decide: nothing runs row by row for them."""

import random
from typing import Any

import pytest
import torch

from brimful import programs
from brimful.programs.batched.convert import encode
from brimful.programs.batched.flags import Step
from brimful.programs.batched.machine import Machine
from brimful.programs.batched.operations import wrong
from brimful.programs.execution.arguments import Arguments
from brimful.programs.execution.failures import category_of
from brimful.programs.executors.comparison import first_difference
from brimful.programs.executors.operation_table import measured_usage
from brimful.programs.vocabulary import bound
from brimful.programs.vocabulary.arc import ARC

from ..helpers.small import arc_samples
from ..helpers.words import batt


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("hconcat", ["t1 = hconcat(I)"]),
        ("hconcat", ["t1 = hconcat(I, C, I)"]),
        ("crop", ["t0 = first(ONE)", "t1 = crop(I, t0, t0)"]),
        ("crop", ["t1 = crop(I, I, TWO_BY_TWO)"]),
        ("crop", ["t1 = crop(I, UNITY, C)"]),
        ("crop", ["t1 = crop(I, ONE, UNITY)"]),
        ("replace", ["t1 = replace(I, C, TWO)"]),
        ("replace", ["t0 = asindices(I)", "t1 = replace(C, t0, I)"]),
        ("replace", ["t1 = replace(I, UNITY, I)"]),
    ],
)
@pytest.mark.parametrize("on_error", ["default", "propagate"])
def test_what_is_decided_runs_for_no_row(name: str, lines: list[str], on_error: str):
    graph = programs.loads(batt(*lines, "o.append((1, t1))")).merge()
    samples = [Arguments(of.task, of.S, of.I, of.C) for of in arc_samples(12, "all", cells=80)]
    assert first_difference(graph, on_error, samples, torch.device("cpu")) is None
    used = measured_usage(graph, samples, torch.device("cpu"))[name]
    assert used.rows and not used.sequential


@pytest.mark.parametrize("line", ["t1 = crop(UNITY, UNITY, UNITY)", "t1 = crop(TWO_BY_TWO, TEN_BY_TEN, UNITY)"])
def test_a_crop_of_numbers_is_decided_by_their_values(line: str):
    """Nothing fails where the slice is empty."""
    graph = programs.loads(batt("TEN_BY_TEN = astuple(TEN, TEN)", line, "o.append((1, t1))")).merge()
    samples = [Arguments(of.task, of.S, of.I, of.C) for of in arc_samples(4, "all", cells=80)]
    assert first_difference(graph, "default", samples, torch.device("cpu")) is None


@pytest.mark.parametrize("name", ["paint", "underpaint"])
@pytest.mark.parametrize("given", ["t0", "t2", "t3"])
def test_objects_of_two_cells_are_taken_apart(name: str, given: str):
    """As a value and a place of it: the color of the other cell is a row, which may be inside of the grid or not."""
    lines = ["t0 = objects(I, T, F, T)", "t2 = totuple(t0)", "t3 = astuple(t0, t0)", f"t1 = {name}(I, {given})"]
    graph = programs.loads(batt(*lines, "o.append((1, t1))")).merge()
    samples = list[Arguments]()
    for height in (3, 6, 9):
        for color in range(1, 10):
            top = (0, color, color, 0)
            samples.append(Arguments("made", (), (top, *[(0, 0, 0, 0)] * (height - 1)), ((0,),)))
    given_twice = samples * 3
    assert first_difference(graph, "default", given_twice, torch.device("cpu")) is None


TAKEN_APART = [
    ["t3 = astuple(UNITY, t2)"],
    ["t3 = astuple(t2, t2)"],
    ["t4 = astuple(t0, UNITY)", "t5 = insert(t4, initset(t2))", "t3 = astuple(t2, t5)"],
    ["t5 = asobject(crop(I, ORIGIN, astuple(ONE, TWO)))", "t3 = astuple(t0, t5)"],
]


@pytest.mark.parametrize("call", ["fill(I, TWO, t3)", "underfill(I, TWO, t3)", "cover(I, t3)", "move(I, t3, UNITY)"])
@pytest.mark.parametrize("lines", TAKEN_APART)
def test_cells_are_taken_apart_as_locations(call: str, lines: list[str]):
    """Their color is a row, which may be inside of the grid or not."""
    start = ["t0 = mostcolor(I)", "t2 = astuple(t0, ORIGIN)"]
    graph = programs.loads(batt(*start, *lines, f"t1 = {call}", "o.append((1, t1))")).merge()
    grids = [tuple((color,) * 4 for _ in range(height)) for color in range(1, 10) for height in (3, 6, 9)]
    samples = [Arguments("made", (), grid, ((0,),)) for grid in grids]
    assert first_difference(graph, "default", samples, torch.device("cpu")) is None


TWO_PARTS = [
    ("tuple", "cell", "cell"), ("tuple", "cell", "pair"), ("tuple", "int", "cell"), ("tuple", "cell", "object"),
    ("tuple", "int", ("tuple", "int", "cell")), ("list", "cell"), ("list", "pair"), "object", "cell", "pair",
]  # fmt: skip
"""What can be unpacked into two, as a location is."""


class Draws:
    """Random values of random forms."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def argument(self) -> Any:
        if self.rng.random() < 0.5:
            return self.form()
        kind = self.rng.choice(["list", "set", "tuple"])
        return kind, *(self.rng.choice(TWO_PARTS) for _ in range(self.rng.choice([1, 2, 2]) if kind == "tuple" else 1))

    def form(self, depth: int = 0) -> Any:
        if depth == 2 or self.rng.random() < 0.45:
            return self.rng.choice(["int", "pair", "cell", "grid", "triple", "indices", "object"])
        kind = self.rng.choice(["list", "set", "tuple"])
        return kind, *(self.form(depth + 1) for _ in range(self.rng.choice([2, 2, 3]) if kind == "tuple" else 1))

    def value(self, form: Any) -> Any:
        match form:
            case "int":
                return self.rng.choice([0, 1, 2, 3, 5, 8, -1])
            case "pair" | "triple":
                return tuple(self.value("int") for _ in range(2 if form == "pair" else 3))
            case "cell":
                return self.rng.randrange(10), self.value("pair")
            case "grid":
                height, width = self.rng.choice([(1, 1), (2, 2), (2, 3), (3, 3), (9, 3), (3, 9), (2, 5)])
                return tuple(tuple(self.rng.randrange(10) for _ in range(width)) for _ in range(height))
            case "indices" | "object":
                element = "pair" if form == "indices" else "cell"
                return frozenset(self.value(element) for _ in range(self.rng.choice([1, 2, 2, 3])))
            case ("tuple", *places):
                return tuple(self.value(place) for place in places)
        kind, element = form
        values = [self.value(element) for _ in range(self.rng.choice([0, 1, 2, 2, 3]))]
        return tuple(values) if kind == "list" else frozenset(values)


def outcome(function: Any, given: tuple[Any, ...]) -> int:
    bound.begin()
    try:
        function(*given)
    except Exception as error:
        return int(category_of(error))
    finally:
        bound.end()
    return 0


def compare_decided(seed: int, count: int) -> None:
    draws, machine = Draws(seed), Machine(torch.device("cpu"), ARC["equality"])
    for _ in range(count):
        name = draws.rng.choice(sorted(wrong._DECIDED))
        operation = ARC[name]
        forms = [draws.argument() for _ in operation.arguments]
        if name in wrong._UNPACKED:
            forms[0] = "grid"
        rows = [tuple(map(draws.value, forms)) for _ in range(16)]
        encoded = [encode(values, machine.device) for values in zip(*rows, strict=True)]
        steps = [Step(column, None, boxed) for column, boxed in encoded]
        if any(len(step.boxed) for step in steps) or machine._computed(operation, steps) is not None:
            continue
        decided = wrong.decided(operation, steps, torch.ones(len(rows), dtype=torch.bool))
        for row, code in enumerate(() if decided is None else decided.tolist()):
            assert not code or code == outcome(operation.function, rows[row]), (name, rows[row])


@pytest.mark.parametrize("seed", range(3))
def test_what_is_decided_is_what_happens(seed: int):
    compare_decided(seed, 400)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_what_is_decided_is_what_happens_for_many_draws(seed: int):
    compare_decided(seed, 10_000)
