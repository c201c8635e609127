"""Workloads take the options of `train`, and hand them on."""

import pytest
import torch

from brimful import gpcm, wpo
from brimful.core.base.errors import ConfigError
from brimful.gpcm.training import fit
from brimful.wpo.training import train as wpo_train

EXECUTION = {"tier": "window", "max_nonfinite": 2, "graph": False, "preload_to_gpu": False}
EXECUTION |= {"log_every": 3, "recompute": False}
ELSEWHERE = {"ranks": 2, "resume": False}


class Reached(Exception):
    """Carries the options with which `brimful.train` was called."""


def _reached(*_, **options):
    raise Reached(options)


def test_gpcm(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fit, "train_model", _reached)
    with pytest.raises(Reached) as caught:
        gpcm.train("synthetic_OC_40_5_3", epochs=1, device="cpu", progress=False, **EXECUTION, **ELSEWHERE)
    given = caught.value.args[0]
    assert {name: given[name] for name in EXECUTION | ELSEWHERE} == EXECUTION | ELSEWHERE


def test_wpo(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wpo_train, "train_model", _reached)
    model = wpo.ScoreModel(torch.randn(8, 2))
    with pytest.raises(Reached) as caught:
        options = {"steps": 2, "device": "cpu", "progress": False, "calibrate": False, **EXECUTION, **ELSEWHERE}
        wpo.train(model, torch.randn(64, 2), **options)
    given = caught.value.args[0]
    assert {name: given[name] for name in EXECUTION | ELSEWHERE} == EXECUTION | ELSEWHERE


def test_what_excludes_each_other():
    with pytest.raises(ConfigError, match="exclude each other"):
        gpcm.train("synthetic_OC_40_5_3", epochs=1, device="cpu", progress=False, tier="window", preload_to_gpu=True)


def test_they_are_no_part_of_what_decides_a_model():
    result = gpcm.train("synthetic_OC_40_5_3", epochs=1, device="cpu", progress=False, max_nonfinite=3)
    assert isinstance(result, gpcm.GPCMResult) and not set(EXECUTION) & set(result.settings)
