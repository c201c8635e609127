"""Periods beside those of the grid: the local minima of a likelihood along the period are narrower than its candidates
are spaced, so around the best of these it is evaluated again, at frequencies near by.

Legend: T tasks, P parameters, M candidates, O offsets, L evaluations.
"""

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from ..model.kernels import Kernel

CANDIDATES = 16
"""Of each task, that are looked at more closely."""
_CYCLES = (0.0, -0.3, -0.2, -0.12, -0.06, -0.03, -0.012, 0.012, 0.03, 0.06, 0.12, 0.2, 0.3)  # more or less
_LENGTHS, _LENGTHS_BESIDE = (1.0, 1.45), (1.0, 0.4, 2.5)  # times that of the waves, alone and beside other lengthscales
_APART, _OTHER = 0.02, 0.5  # cycles, and logarithms of any parameter: candidates that come closer than both are one


def refined(
    kernel: Kernel,
    theta_TMP: Tensor,
    score_TM: Tensor,
    index_T: Tensor,
    scored: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
) -> tuple[Tensor, Tensor]:
    """Candidates, the best first, each at the best of the frequencies near by. What leads to the same as a better one
    has an infinite score, as have those that had one before."""
    waves = [factor for factor in kernel.factors if factor.shape == "periodic"]
    own = [list(range(factor.start + 1, factor.stop)) for factor in waves]
    alone = kernel.kinds.count("lengthscale") == sum(map(len, own))
    for factor, lengths in zip(waves, own, strict=True):
        trial_TMOP = _near_by(theta_TMP, factor.start, lengths, _LENGTHS if alone else _LENGTHS_BESIDE)
        use_TMO = torch.isfinite(score_TM)[:, :, None].expand(trial_TMOP.shape[:3])
        moved_LP, score_L = scored(index_T[torch.nonzero(use_TMO)[:, 0]], trial_TMOP[use_TMO])
        score_TMO = trial_TMOP.new_full(use_TMO.shape, math.inf).masked_scatter(use_TMO, score_L)
        moved_TMOP = trial_TMOP.masked_scatter(use_TMO[..., None].expand_as(trial_TMOP), moved_LP)
        best_TM, where_TM = score_TMO.min(2)
        there_TMP = moved_TMOP.take_along_dim(where_TM[:, :, None, None], 2)[:, :, 0]
        theta_TMP = torch.where((best_TM < score_TM)[:, :, None], there_TMP, theta_TMP)
        score_TM = torch.minimum(best_TM, score_TM)
    theta_TMP, score_TM = _sorted(theta_TMP, score_TM)
    apart_TMM = ((theta_TMP[:, :, None] - theta_TMP[:, None]).abs() > _OTHER).any(3)
    for factor in waves:
        frequency_TM = torch.exp(-theta_TMP[:, :, factor.start])
        apart_TMM |= (frequency_TM[:, :, None] - frequency_TM[:, None]).abs() > _APART
    earlier_MM = torch.ones_like(apart_TMM[0]).tril(-1) if len(apart_TMM) else apart_TMM
    return _sorted(theta_TMP, torch.where((~apart_TMM & earlier_MM).any(2), math.inf, score_TM))


def _near_by(theta_TMP: Tensor, period: int, lengths: list[int], times: tuple[float, ...]) -> Tensor:
    """Every candidate at other frequencies, and at other lengthscales."""
    offsets_O2 = theta_TMP.new_tensor([(cycles, math.log(by)) for by, cycles in itertools.product(times, _CYCLES)])
    trial_TMOP = theta_TMP[:, :, None].repeat(1, 1, len(offsets_O2), 1)
    frequency_TMO = torch.exp(-trial_TMOP[..., period])
    moved_TMO = torch.maximum(frequency_TMO + offsets_O2[:, 0], 0.5 * frequency_TMO)
    trial_TMOP[..., period] = -torch.log(moved_TMO)
    trial_TMOP[..., lengths] += offsets_O2[:, 1:]
    return trial_TMOP


def _sorted(theta_TMP: Tensor, score_TM: Tensor) -> tuple[Tensor, Tensor]:
    order_TM = torch.argsort(score_TM, dim=1, stable=True)
    return theta_TMP.take_along_dim(order_TM[:, :, None], 1), score_TM.gather(1, order_TM)
