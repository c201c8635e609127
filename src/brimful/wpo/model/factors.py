"""The kinds of factors that a precision matrix can be made of: the full lower triangle, or diagonal and low rank.

Legend: K centers, B samples, d dimensions, O numbers of a factor, E normal numbers for a draw.

A factor is made of a network's output, and answers what the mixture asks of it without a d x d matrix of the precision.
"""

import math
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

_LINEAR = 40.0  # from where softplus(x) is x; torch's own 20 is off by 2e-9


class Factor(Protocol):
    """What a kind of factor can do. `shaped_KO` is what `shape` makes of the network's output."""

    @property
    def d(self) -> int:
        """Dimensions."""
        ...

    @property
    def outputs(self) -> int:
        """Numbers of a factor, that the network has to give."""
        ...

    @property
    def noise(self) -> int:
        """Normal numbers that a draw needs."""
        ...

    def begin(self, weight_OH: Tensor, bias_O: Tensor, /) -> None:
        """Fills the last layer so that precisions begin at about the identity."""
        ...

    def shape(self, raw_KO: Tensor, /) -> Tensor:
        """Makes positive what must be; differentiable."""
        ...

    def parts(self, shaped_KO: Tensor, r_KBd: Tensor, /) -> tuple[Tensor, Tensor, Tensor]:
        """(0.5 logdet P - 0.5 r.Pr)_KB, (P r)_KBd and (tr P)_K; differentiable where gradients are asked for."""
        ...

    def noisy(self, shaped_KO: Tensor, r_KBd: Tensor, c_d: Tensor, /) -> tuple[Tensor, Tensor]:
        """The same of (P^-1 + C)^-1 with the diagonal C, without the trace."""
        ...

    def draw(self, shaped_KO: Tensor, e_KBE: Tensor, /) -> Tensor:
        """Draws of covariance P^-1, (K, B, d), from normal numbers."""
        ...


def positive(raw: Tensor, floor: float) -> Tensor:
    """softplus + floor, moved so that 0 becomes 1: a layer of zeros, as weight decay would have it, is the identity."""
    return functional.softplus(raw + _moved(floor), threshold=_LINEAR) + floor


def slope(raw: Tensor, floor: float) -> Tensor:
    """The derivative of `positive`."""
    return torch.sigmoid(raw + _moved(floor))


def _moved(floor: float) -> float:
    return math.log(math.expm1(1.0 - floor))
