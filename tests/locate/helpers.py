"""Recordings and a network that many tests look at, made once."""

import functools
import math
from typing import Any

import torch
from torch import Tensor

from brimful import locate
from brimful.locate import LocateResult, Recordings, Scenario, generate
from brimful.locate.data.features import Scaling

SCENARIO = Scenario()
TINY: dict[str, Any] = {"network": "small", "epochs": 3, "batch_size": 64, "device": "cpu", "progress": False}


@functools.cache
def recordings() -> Recordings:
    return generate(6_000, SCENARIO)


@functools.cache
def scaling() -> Scaling:
    return Scaling.of(recordings())


@functools.cache
def samples(count: int) -> dict[str, Tensor]:
    return scaling().samples(recordings().select(slice(0, count)))


def train(count: int = 400, **options: Any) -> LocateResult:
    """A network that is trained for a moment."""
    dataset = locate.Dataset("synthetic", recordings().select(slice(0, count)), SCENARIO, 0)
    return locate.train(dataset, **(TINY | options))


def uniform_fault(ranks: Tensor, bins: int = 10) -> float:
    """Chi-squared of ranks against the uniform distribution, in standard deviations above its mean."""
    counts = torch.histc(ranks.double(), bins, 0, 1)
    expected = len(ranks) / bins
    chi = float((counts - expected).square().sum() / expected)
    return (chi - (bins - 1)) / math.sqrt(2 * (bins - 1))
