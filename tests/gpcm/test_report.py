"""The reports of trained models, whatever these are like."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from brimful import gpcm
from brimful.gpcm.data.students import Students
from brimful.gpcm.evaluation.inference import predict_next
from brimful.gpcm.evaluation.item_parameters import item_parameters

from ..helpers.pictures import is_rendered
from .helpers.students import small, students

pytestmark = pytest.mark.usefixtures("one_thread")


def untrained(trained: gpcm.GPCMResult, held_out: Students, seen: Students | None = None) -> gpcm.GPCMResult:
    """A model with its initial weights, and no true parameters."""
    model = small(len(held_out.questions), held_out.categories).float()
    predictions = predict_next(model, held_out)
    return replace(
        trained,
        model=model,
        vocabulary=held_out.select(np.zeros(0, np.int64)),
        items=item_parameters(model, seen or held_out),
        held_out=predictions,
        scores=predictions.scores(),
        recovery=None,
        true_parameters=None,
        int8=None,
    )


@pytest.mark.usefixtures("rendered_pictures")
def test_the_report_of_synthetic_data(trained: gpcm.GPCMResult, tmp_path: Path):
    report = gpcm.report(trained)
    assert report.metrics["qwk"] == trained.scores.qwk
    files = report.save(tmp_path / "new")
    assert [path.name for path in files] == ["gpcm.png", "students.png", "history.parquet", "metrics.json"]
    assert all(is_rendered(path) for path in files[:2])


def cases() -> dict[str, tuple[Students, Students | None]]:
    asked = students([20, 20])
    return {
        "many categories": (students([40, 3, 0, 30], categories=14), None),
        "one answer": (students([1], questions=1, categories=2), None),
        "unknown questions": (replace(asked, question=np.full(40, 7, np.int32)), asked),
        "no answers": (students([0, 0]), students([9, 9])),
    }


@pytest.mark.parametrize("case", list(cases()))
def test_the_report_of_anything(trained: gpcm.GPCMResult, case: str):
    """Drawn, and not written, which takes most of the time."""
    report = gpcm.report(untrained(trained, *cases()[case]))
    axes = [len(draw().axes) for draw in report.pictures.values()]
    assert axes[0] >= 7 and str(report)


def test_the_report_of_a_stored_model_needs_no_data(trained: gpcm.GPCMResult, tmp_path: Path):
    folder = gpcm.save(trained, tmp_path / "model")
    (folder / "held-out.parquet").unlink()
    without = gpcm.load(folder).best
    assert not len(without.held_out.students)
    assert [len(draw().axes) > 0 for draw in gpcm.report(without).pictures.values()] == [True, False]


def test_the_picture_says_how_many_students_there_are_and_of_which_fold(trained: gpcm.GPCMResult):
    segmented = untrained(trained, students([40, 40, 40]).segments(10))

    def title(result: gpcm.GPCMResult | gpcm.CrossValidationResult, name: str = "gpcm") -> str:
        return gpcm.report(result).pictures[name]()._suptitle.get_text()

    assert ": 3 held-out students" in title(segmented)
    folds = gpcm.CrossValidationResult.of((segmented, segmented), (), 1, 1.0)
    assert "fold 1 of 2, the best, 3 held-out students" in title(folds)
    assert title(folds, "students").startswith("fold 1 of 2, the best, ")
