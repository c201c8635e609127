"""A result on disk is the result that was saved."""

from pathlib import Path

import numpy as np
import pytest
import torch

from brimful import CorruptError, InputError, wpo

from .helpers.training import fit, model, small

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("factor", ["triangle", "lowrank"])
def test_a_saved_result_is_loaded_unchanged(factor: str, tmp_path: Path):
    data = small(dtype=torch.float32)
    untrained = model(data, factor=factor, rank=2, stability=0.5, beta=2.0)
    result = fit(data, untrained, out=tmp_path, add_training_points=factor == "triangle")
    loaded, x = wpo.load(tmp_path), data.held_out_Md
    for t in (0.0, 0.3):
        assert torch.equal(result.model.log_prob(x, t), loaded.model.log_prob(x, t))
    assert torch.equal(result.model.sample(9, seed=1), loaded.model.sample(9, seed=1))
    for name in ("scores", "plan", "best_epoch", "history", "settings", "image_shape", "observed", "seconds"):
        assert getattr(loaded, name) == getattr(result, name)
    assert np.array_equal(loaded.curve, result.curve)
    assert torch.equal(loaded.report_samples.samples_nd, result.report_samples.samples_nd)
    assert set(loaded.settings["calibration"]) == {"radius", "fraction", "width"}
    (tmp_path / "report.safetensors").unlink()
    assert not len(wpo.load(tmp_path).report_samples.held_out_nd)
    (tmp_path / "weights.safetensors").write_bytes(b"nothing")
    with pytest.raises(CorruptError, match="damaged or incomplete"):
        wpo.load(tmp_path)


def test_a_folder_without_a_model_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="holds no trained model"):
        wpo.load(tmp_path)
