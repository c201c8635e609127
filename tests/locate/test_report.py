"""The pictures of a report."""

from pathlib import Path

import pytest

from brimful import locate
from brimful.locate import LocateResult


@pytest.mark.usefixtures("one_thread")
def test_pictures_with_and_without_judges(trained: LocateResult, tmp_path: Path):
    held_out, comparison = locate.evaluate(trained, samples=12)
    judged = locate.report(trained.with_held_out(held_out), comparison)
    plain = locate.report(trained)
    names = {path.name for path in plain.save(tmp_path)}
    assert names == {"map.png", "errors.png", "training.png", "history.parquet", "metrics.json"}
    assert judged.metrics["comparison"]["posterior"]["rmse_m"] > 0
    figure = judged.pictures["errors"]()
    labels = {text for axes in figure.axes for text in axes.get_legend_handles_labels()[1]}
    assert {"network", "least squares", "posterior"} <= labels


def test_a_map_shows_receivers_truth_and_prediction(trained: LocateResult):
    figure = locate.report(trained).pictures["map"]()
    assert len(figure.axes) == 6
    labels = set(figure.axes[0].get_legend_handles_labels()[1])
    assert labels == {"detected it", "detected nothing", "68% ellipse", "predicted", "truth"}
