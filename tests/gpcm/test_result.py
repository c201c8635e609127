"""What a trained model predicts, and that it is the same after loading."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from brimful import CorruptError, InputError, gpcm

from .helpers.students import students
from .helpers.training import NAME, weights

pytestmark = pytest.mark.usefixtures("one_thread")


def test_what_training_gives(trained: gpcm.GPCMResult):
    assert len(trained.held_out.students) == 8
    assert trained.scores == gpcm.score(trained.held_out.probability_TK, trained.held_out.students.response, "mean")
    assert [row["epoch"] for row in trained.history] == [1, 2, 3]
    assert trained.best_epoch == int(np.argmin([row["valid_loss"] for row in trained.history]))
    assert trained.recovery is not None and trained.recovery.students == 8
    assert trained.int8_qwk_loss is not None and abs(trained.int8_qwk_loss) < 0.1
    assert trained.settings["dataset"] == NAME and trained.settings["epochs"] == 3
    assert not trained.model.training
    assert trained.item_table().column_names == ["question", "asked", "alpha", "beta_1", "beta_2"]
    summary = trained.summary()
    assert summary["predicted_peak_bytes"] == trained.predicted and summary["observed_peak_bytes"] == trained.observed
    assert "questions=6, categories=3" in repr(trained) and "<table>" in trained._repr_html_()


def test_a_stored_model_is_the_same(trained: gpcm.GPCMResult, tmp_path: Path):
    folder = gpcm.save(trained, tmp_path / "stored")
    again = gpcm.load(folder)
    assert isinstance(again, gpcm.GPCMResult)
    assert torch.equal(weights(again), weights(trained))
    assert again.summary() == trained.summary() | {"compiling_seconds": None}  # nothing was compiled for this one
    assert again.history == list(trained.history) and again.best_epoch == trained.best_epoch
    assert again.true_parameters is not None and trained.true_parameters is not None
    assert np.array_equal(again.true_parameters.beta_QH, trained.true_parameters.beta_QH)
    for name in ("question", "response", "offsets", "ids", "questions"):
        assert np.array_equal(getattr(again.held_out.students, name), getattr(trained.held_out.students, name))
    for name in ("probability_TK", "theta_T", "alpha_T", "beta_TH"):
        assert np.array_equal(getattr(again.held_out, name), getattr(trained.held_out, name))
    assert np.array_equal(again.items.beta_QH, trained.items.beta_QH)
    assert again.int8 is not None and trained.int8 is not None and again.int8.bytes == trained.int8.bytes
    assert again.predict(trained.held_out.students).equals(trained.predict(trained.held_out.students))
    (folder / "weights.safetensors").write_bytes(b"broken")
    with pytest.raises(CorruptError, match="is damaged or incomplete"):
        gpcm.load(folder)


def test_predictions(trained: gpcm.GPCMResult, tmp_path: Path):
    path = tmp_path / "new.txt"
    path.write_text("3\n0,99,5\n1,2,0\n1\n2\n2\n")
    table = trained.predict(path)
    names = ["student", "step", "question", "known", "response", "theta", "alpha", "beta_1", "beta_2"]
    assert table.column_names == [*names, "predicted", "expected", "p_0", "p_1", "p_2"]
    assert table["student"].to_pylist() == ["0", "0", "0", "1"]
    assert table["step"].to_pylist() == [1, 2, 3, 1]
    assert table["question"].to_pylist() == ["0", "99", "5", "2"]  # its own id, though training never asked it
    assert table["known"].to_pylist() == [True, False, True, True]
    p = np.stack([table[f"p_{category}"].to_numpy() for category in range(3)], axis=1)
    assert np.allclose(p.sum(1), 1, atol=1e-6)
    assert np.allclose(table["expected"].to_numpy(), p @ np.arange(3), atol=1e-6)
    assert np.array_equal(table["predicted"].to_numpy(), np.floor(p @ np.arange(3) + 0.5))
    after = trained.predict_question(path, "4")
    assert after["student"].to_pylist() == ["0", "1"] and after["steps"].to_pylist() == [3, 1]
    (tmp_path / "longer.txt").write_text("4\n0,99,5,4\n1,2,0,1\n")
    last = trained.predict(tmp_path / "longer.txt")["p_0"].to_pylist()[-1]
    assert math.isclose(after["p_0"].to_pylist()[0], last, rel_tol=1e-5)
    assert trained.knowledge(path, "1").theta_TQ.shape == (2, 6)
    with pytest.raises(InputError, match="the model has no question 'x'; the vocabulary begins with 0, 1, 2"):
        trained.predict_question(path, "x")
    with pytest.raises(InputError, match="there is no student 'nobody' among these 2"):
        trained.knowledge(path, "nobody")
    with pytest.raises(InputError, match="a vocabulary of their own"):
        trained.predict(students([3], questions=6, categories=3))
