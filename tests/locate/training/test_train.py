"""Training: one path, whatever is cached; what is held out; what is refused."""

import pytest
import torch

from brimful import InputError, locate
from brimful.core.declare.config import build
from brimful.locate import LocateResult
from brimful.locate.options import TrainConfig

from ..helpers import recordings, train

pytestmark = pytest.mark.usefixtures("one_thread")


def weights(result: LocateResult) -> torch.Tensor:
    return torch.cat([value.flatten() for value in result.model.state_dict().values()])


def test_cached_and_uncached_training_give_the_same_bits():
    cached, uncached = train(200), train(200, preload_to_gpu=False, num_workers=1)
    assert cached.plan.tier == "device" and uncached.plan.tier == "pinned"
    assert torch.equal(weights(cached), weights(uncached))
    assert cached.scores == uncached.scores


def test_it_learns_and_is_calibrated_on_what_it_did_not_see():
    result = train(3_000, epochs=5, dropout_rate=0.0, warmup_epochs=1, lr=4e-3, test_split=0.3)
    everywhere = (result.held_out.truth - result.held_out.truth.mean(0)).square().sum(1).mean().sqrt()
    assert result.scores.rmse_m < 0.75 * float(everywhere)
    assert result.scores.coverage == pytest.approx(0.68, abs=0.08)  # 600 and 900 recordings
    assert result.scores.count == 900
    assert result.history[-1]["valid_rmse_m"] < result.history[0]["valid_rmse_m"]


def test_no_password_is_stored_with_a_model():
    result = train(100, epochs=1, url="postgresql://me:secret@nowhere/db")
    assert "secret" not in str(result.settings) and "url" not in result.settings


def test_without_calibration_the_scale_is_one():
    assert train(200, calibrate=False, epochs=1).scale == 1


def test_the_seeds_names_and_defaults():
    config = build(
        TrainConfig,
        {
            "dataset_ids": "a.parquet, b.csv",
            "learning_rate": 2e-3,
            "max_grad_norm": 2.0,
            "lr_scheduler": "constant",
            "early_stop_patience": 7,
            "early_stop_delta": 0.01,
            "accelerator": "cpu",
        },
    )
    assert config.datasets == ["a.parquet", "b.csv"]
    assert (config.lr, config.grad_clip, config.schedule) == (2e-3, 2.0, "constant")
    assert (config.patience, config.min_delta, config.where) == (7, 0.01, "cpu")
    plain = build(TrainConfig, {"dataset_ids": "a"})
    seed = {
        "batch_size": 128,
        "num_workers": 0,
        "validation_split": 0.2,
        "preload_to_gpu": True,
        "epochs": 100,
        "lr": 1e-3,
        "weight_decay": 1e-4,
        "dropout_rate": 0.2,
        "grad_clip": 1.0,
        "schedule": "cosine",
        "warmup_epochs": 5,
        "patience": 20,
        "min_delta": 1e-3,
        "accelerator": "auto",
        "min_snr_db": 10,
        "max_gdop": 5,
    }
    assert {name: getattr(plain, name) for name in seed} == seed


def test_several_datasets_of_unequal_width_and_what_is_left_out():
    narrow = locate.Dataset(
        "narrow", locate.generate(100, locate.Scenario(receivers=6)), locate.Scenario(receivers=6), 0
    )
    result = locate.train(
        [narrow, recordings().select(slice(0, 100))],
        network="small",
        epochs=1,
        min_snr_db=12.0,
        device="cpu",
        progress=False,
    )
    assert result.scenario is None
    assert list(result.left_out) == ["the mean snr is below 12.0 dB"]
    assert result.summary()["left_out"] > 10


def test_unknown_datasets_and_too_few_recordings_are_refused():
    with pytest.raises(InputError, match="there is no dataset 'nowhere'"):
        locate.train("nowhere", device="cpu")
    with pytest.raises(InputError, match=r"nowhere\.parquet does not exist"):
        locate.train(["nowhere.parquet"], device="cpu")
    with pytest.raises(InputError, match="dataset_ids is empty"):
        locate.train([], device="cpu")
    with pytest.raises(InputError, match="5 recordings"):
        locate.train(recordings().select(slice(0, 5)), device="cpu")
    with pytest.raises(InputError, match="none of 20 recordings can be used: 20 because the GDOP is above"):
        locate.train(recordings().select(slice(0, 20)), device="cpu", max_gdop=0.1)
