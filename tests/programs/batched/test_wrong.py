"""Calls whose failure the number and the form of their arguments decide: nothing runs row by row for them."""

import pytest
import torch

from brimful import programs
from brimful.programs.execution.arguments import Arguments
from brimful.programs.executors.comparison import first_difference
from brimful.programs.executors.operation_table import measured_usage

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
