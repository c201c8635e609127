"""The pictures of trained models, whatever these are like."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from brimful import gpcm
from brimful.gpcm.data.students import Students
from brimful.gpcm.evaluation.inference import predict_next
from brimful.gpcm.evaluation.item_parameters import items
from brimful.gpcm.outcome import Held
from brimful.gpcm.trained import Trained, vocabulary

from .helpers.pupils import small, students

pytestmark = pytest.mark.usefixtures("one_thread")


def is_picture(path: Path) -> bool:
    pixels = matplotlib.image.imread(path)
    colours = len(np.unique(pixels[::5, ::5].reshape(-1, pixels.shape[2]), axis=0))
    return path.suffix == ".png" and pixels.shape[0] > 800 and pixels.shape[1] > 1200 and colours > 50


def untrained(found: Students, seen: Students | None = None) -> Trained:
    """A model with its first weights, which knows of no history."""
    model = small(len(found.questions), found.categories).float()
    held = Held.of(found, predict_next(model, found))
    scores = gpcm.score(held.probability_TK, found.response)
    return Trained(model, vocabulary(found), items(model, seen or found), scores, held)


def test_the_report_of_synthetic_data(tmp_path: Path):
    sizes: dict[str, Any] = {"slots": 4, "key_size": 4, "value_size": 6, "hidden": 5}
    found = gpcm.train("synthetic_OC_60_8_4", epochs=2, device="cpu", progress=False, **sizes)
    pictures = found.report(tmp_path / "new")
    assert [path.name for path in pictures] == ["gpcm.png", "students.png"]
    assert all(is_picture(path) for path in pictures)


@pytest.mark.parametrize("case", ["two categories", "many categories", "one answer", "unknown questions", "no answers"])
def test_the_report_of_anything(tmp_path: Path, case: str):
    if case == "two categories":
        found = untrained(students([40, 3, 0, 12], categories=2))
    elif case == "many categories":
        found = untrained(students([40, 30], categories=14))
    elif case == "one answer":
        found = untrained(students([1], questions=1, categories=3))
    elif case == "unknown questions":
        asked = students([20, 20])
        found = untrained(replace(asked, question=np.full(40, 7, np.int32)), asked)
    else:
        found = untrained(students([0, 0]), students([9, 9]))
    for path in found.report(tmp_path):
        pixels = matplotlib.image.imread(path)
        assert pixels.shape[0] > 800 and pixels.shape[1] > 1200


def test_the_report_of_a_stored_model_needs_no_data(tmp_path: Path):
    folder = untrained(students([30, 22, 17])).save(tmp_path / "model")
    assert all(path.parent == tmp_path and is_picture(path) for path in gpcm.load(folder).report(tmp_path))
    (folder / "held-out.parquet").unlink()
    without = gpcm.load(folder)
    assert not len(without.best.held.students if isinstance(without, gpcm.Folds) else without.held.students)
    assert len(without.report(tmp_path)) == 2
