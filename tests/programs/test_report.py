"""The report: what its pictures show."""

from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from brimful import programs
from brimful.programs.report import _COLORS, chosen_samples, report

from .helpers.small import small
from .helpers.words import batt, solver


def drawn(result: programs.ProgramResult, name: str) -> Any:
    return report(result).pictures[name]()


@pytest.mark.usefixtures("rendered_pictures")
def test_the_pictures_are_written(tmp_path: Path):
    result = small()
    paths = {path.name for path in report(result).save(tmp_path)}
    assert {"grids.png", "failures.png"} <= paths
    for name in ("grids.png", "failures.png"):
        picture = matplotlib.image.imread(tmp_path / name)
        assert picture.shape[0] > 100 and np.ptp(picture[..., :3]) > 0.5
    assert report(result).metrics == result.summary()


def test_a_row_is_input_target_and_output_side_by_side():
    result = small()
    figure = drawn(result, "grids")
    chosen = chosen_samples(result.outcomes)
    assert len(figure.axes) == 3 * len(chosen)
    (index, column), axes = chosen[0], figure.axes[:3]
    sample = result.samples[index]
    expected = (sample.I, sample.C, result.outputs[index][column])
    for axis, grid in zip(axes, expected, strict=True):
        assert axis.images[0].get_array().tolist() == [list(row) for row in grid]
        assert axis.images[0].get_clim() == (0, 9)
    assert f"{sample.task} {sample.kind} {sample.index}: input" in axes[0].get_title()
    assert axes[2].get_title() == f"{result.programs[column].name}: right"
    assert len(set(_COLORS)) == 10


def test_an_output_that_fails_says_where():
    loaded = programs.loads(solver("x = objects(I, T, F, T)", "y = argmax(x, size)", "z = paint(I, y)", "z", name="f"))
    samples = [("a", (), ((0, 0),), ((1, 1),))]
    for on_error, shown in (("default", True), ("propagate", False)):
        result = programs.run(loaded, samples, on_error=on_error, device="cpu", progress=False)
        axis = drawn(result, "grids").axes[2]
        assert axis.get_title() == "f: wrong\nargmax fails in line 3: ValueError"
        assert bool(axis.images) is shown and bool(axis.texts) is not shown
    bars = drawn(result, "failures").axes
    assert [label.get_text() for label in bars[0].get_yticklabels()] == ["argmax"]
    assert [label.get_text() for label in bars[1].get_yticklabels()] == ["ValueError"]
    assert bars[0].patches[0].get_width() == 1


@pytest.mark.parametrize("value", ["size(I)", "asindices(I)", "identity", "canvas(ONE, ORIGIN)"])
def test_what_is_no_grid_is_drawn_as_none(value: str):
    result = programs.run(programs.loads(solver(f"x = {value}", "x")), [("a", (), ((1,),), ())], progress=False)
    axes = drawn(result, "grids").axes
    assert axes[2].texts[0].get_text() == "no grid" and axes[1].texts[0].get_text() == "no grid"
    assert "target not known" in axes[2].get_title()


def test_the_output_of_a_batt_is_shown_and_no_failures_where_there_are_none():
    text = batt("t1 = hmirror(I)", "t2 = vmirror(I)", "o.append((1, 'h', t1))", "o.append((2, 'v', t2))")
    result = programs.run(programs.loads(text), [("a", (), ((1, 2),), ((2, 1),))], device="cpu", progress=False)
    assert set(report(result).pictures) == {"grids"}
    axes = drawn(result, "grids").axes
    assert axes[2].get_title() == "batt_1_v: right" and axes[2].images[0].get_array().tolist() == [[2, 1]]


def test_programs_that_nearly_solve_a_task_come_first():
    result = small()
    tasks = [result.samples[index].task for index, _ in chosen_samples(result.outcomes)]
    assert len(tasks) == len(set(tasks)) == 3
    assert len(chosen_samples(result.outcomes, 2)) == 2


def test_where_nothing_ran_there_is_an_empty_picture():
    result = small(pair_by_name=True)
    nothing = programs.run(result.programs, [("z", (), ((1,),), ())], pair_by_name=True, progress=False)
    assert chosen_samples(nothing.outcomes) == [] and len(drawn(nothing, "grids").axes) == 3
