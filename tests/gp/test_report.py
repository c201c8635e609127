"""What the picture of a fit shows."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.dates import ConciseDateFormatter, num2date

from brimful import gp
from brimful.gp.report import draw, points_of

from .helpers.small import fit, rows


@pytest.fixture
def drawn() -> Any:
    """Draws a fit, and gives its figure."""
    return draw


def titles(figure: Any) -> list[str]:
    return [axes.get_title() for axes in figure.axes]


SUM = ("linear.variance", "rbf.variance", "rbf.lengthscale", "periodic.period", "periodic.lengthscale", "noise")


@pytest.mark.parametrize(
    ("kernel", "names"),
    [
        ("rbf", ("variance", "lengthscale", "noise")),
        ("rational_quadratic", ("variance", "alpha", "lengthscale", "noise")),
        ("linear + rbf * periodic", SUM),
    ],
)
def test_every_fitted_parameter_has_a_histogram(drawn: Any, kernel: str, names: tuple[str, ...]):
    shown = titles(drawn(fit(*rows(0, 7, 9), kernel=kernel, steps=5)))
    assert [value.split()[1] for value in shown if value.startswith("log10")] == list(names)
    assert (shown.count("NLML, nats"), shown.count("the run")) == (1, 0)  # it has no log


def test_how_it_ran_is_drawn_where_it_has_a_log(tmp_path: Path, drawn: Any):
    fitted = fit(*rows(0, 7, 9), out=tmp_path / "fit")
    assert titles(drawn(fitted, tmp_path / "fit")).count("the run") == 1
    assert "the run" not in titles(drawn(fitted, tmp_path))


def test_a_known_noise_is_not_drawn(drawn: Any):
    shown = titles(drawn(fit(*rows(0, 7, 9), noise=0.1)))
    assert [value for value in shown if "log10" in value] == ["log10 variance", "log10 lengthscale"]


@pytest.mark.parametrize("dimensions", [pytest.param(10, marks=pytest.mark.soak), 11])
def test_no_more_than_twelve_parameters_are_drawn(drawn: Any, dimensions: int):
    figure = drawn(fit(*rows(0, 4, 9, dimensions), ard=True, steps=3))
    parameters = dimensions + 2
    assert sum("log10" in value for value in titles(figure)) == min(12, parameters)
    message = f"the first 12 of {parameters} parameters"
    assert (message in figure.get_suptitle()) is (parameters > 12)


def test_the_parameters_of_a_task_are_named(drawn: Any):
    fitted = fit(*rows(0, 7, 9), kernel="linear + rbf * periodic", steps=5)
    task = next(value for value in titles(drawn(fitted)) if value.startswith("task 3"))
    plain = " ".join(task.split())
    for name in SUM[:4]:
        assert f"{name} {fitted.params[name][3]:.2g}" in plain
    assert plain.endswith(", ...")


@pytest.mark.parametrize("dimensions", [pytest.param(1, marks=pytest.mark.soak), 11])
def test_no_two_axes_overlap(drawn: Any, dimensions: int):
    """With one row of parameters, and with as many as are drawn."""
    figure = drawn(fit(*rows(0, 3, 6, dimensions), ard=True, steps=2))
    figure.draw_without_rendering()
    boxes = [axes.get_window_extent() for axes in figure.axes if axes.get_title() or not axes.axison]
    for position, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:position])


def test_axes_are_labelled_and_bands_have_a_legend(drawn: Any):
    figure = drawn(fit(pd.DataFrame({"shop": "a", "day": [1, 2, 3, 4], "sold": [1.0, 3.0, 2.0, 5.0]}),
                       columns=gp.ColumnNames(id="shop", x="day", y="sold")))  # fmt: skip
    task = figure.axes[0]
    assert (task.get_xlabel(), task.get_ylabel()) == ("day", "sold")
    legend = [text.get_text() for text in task.get_legend().get_texts()]
    assert legend == ["observation ±2 sd", "function ±2 sd", "mean", "data"]
    figure.draw_without_rendering()
    assert task.get_legend().get_window_extent().y0 > task.title.get_window_extent().y1  # it hides nothing


@pytest.mark.parametrize("form", ["table", "arrays"])
def test_dated_axes_show_dates(drawn: Any, form: str):
    days, y = pd.date_range("2024-01-01", periods=9), rows(0, 1, 9)[1]
    given = (pd.DataFrame({"task": "a", "ds": days, "y": y[0]}),) if form == "table" else (days, y)
    task = drawn(fit(*given)).axes[0]
    assert isinstance(task.xaxis.get_major_formatter(), ConciseDateFormatter)
    assert num2date(task.get_xlim()[0]).year in (2023, 2024)


def test_a_missing_input_is_no_point_of_the_picture():
    x, y = rows(0, 2, 9)
    x[1, 4] = np.nan
    assert [len(points_of(fit(x, y), task)[1]) for task in range(2)] == [9, 8]
