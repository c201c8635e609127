"""The report of models of any dimension, and of images."""

import numpy as np
import pytest
import torch

from brimful import wpo

from .helpers.training import fit, model

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("d", "image_shape", "titles"),
    [
        (1, None, ["held-out data and samples", "", ""]),
        (2, None, ["density", "score, arrows"]),
        (6, None, ["first two principal components", "columns 0 and 1", "columns 2 and 3"]),
        (8, (1, 2, 4), ["training image or center nearest"]),
        (12, (3, 2, 2), ["training image or center nearest"]),
    ],
)
def test_what_is_drawn(d: int, image_shape: tuple[int, int, int] | None, titles: list[str]):
    data = wpo.dataset(np.random.default_rng(0).normal(size=(80, d)), 9).to(torch.float32)
    result = fit(data, model(data), image_shape=image_shape, calibrate=False, steps=2)
    made = wpo.report(result)
    figure = made.pictures["wpo"]()
    drawn = [axes.get_title() for axes in figure.axes]
    assert all(any(title in other for other in drawn) for title in titles)
    assert {"loss, in standardized units", "log-likelihood of held-out rows"} < set(drawn)
    with_values = [axes for axes in figure.axes if axes.axison]
    assert all(axes.get_ylabel() for axes in with_values)
    assert made.metrics["predicted_peak_bytes"] == result.plan.predicted
    assert made.tables["history"].num_rows == len(result.history)
