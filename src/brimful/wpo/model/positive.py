"""The map from any number to a positive one that the diagonals of factors go through, and its derivative."""

import math

import torch
from torch import Tensor
from torch.nn import functional

_THRESHOLD = 40.0  # from where softplus(x) is x; torch's default of 20 is off by 2e-9


def positive(raw: Tensor, floor: float) -> Tensor:
    """softplus + floor, shifted so that 0 maps to 1: a layer of zeros, where weight decay leads, is the identity."""
    return functional.softplus(raw + _shift(floor), threshold=_THRESHOLD) + floor


def positive_derivative(raw: Tensor, floor: float) -> Tensor:
    """The derivative of `positive`."""
    return torch.sigmoid(raw + _shift(floor))


def _shift(floor: float) -> float:
    return math.log(math.expm1(1.0 - floor))
