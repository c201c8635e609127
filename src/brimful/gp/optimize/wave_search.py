"""Periods beside those of the grid, and beside those that descents ended at.

The local minima of a likelihood along the period are narrower than the candidates of the grid are spaced, so around the
best of these it is evaluated again, at frequencies near by. Where descents end is seldom alone: some hundredths of a
cycle away there may be a better minimum, with a longer lengthscale beside the wave; and waves of a multiple or a
fraction of the period look much the same. So what lies there is scored too, and the best of it descended from.

Legend: T tasks, P parameters, M candidates, O moves, L evaluations, S starts.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..model.kernels import Kernel, KernelFactor
from ..model.priors import Limits

CANDIDATES = 16
"""Of each task, that are looked at more closely."""
_CYCLES = (0.0, -0.3, -0.2, -0.12, -0.06, -0.03, -0.012, 0.012, 0.03, 0.06, 0.12, 0.2, 0.3)  # more or less
_LENGTHS, _LENGTHS_BESIDE = (1.0, 1.45), (1.0, 0.4, 2.5)  # times that of the waves, alone and beside other lengthscales
_APART, _OTHER = 0.02, 0.5  # cycles, and logarithms of any parameter: candidates that come closer than both are one
_NEIGHBORS = (0.02, 0.035, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5)  # cycles from an optimum
_LONGER, _NOISIER = (1.0, 2.5), (1.0, 0.1)  # times the other lengthscales there, and the noise
_MULTIPLES = (1 / 3, 1 / 2, 2 / 3, 3 / 4, 4 / 3, 3 / 2, 2.0, 3.0)  # of the period of an optimum
_SHORTER, _ROUGHER = (1.0, 0.65), (1.0, 10.0)  # times the other lengthscales and the noise there
_AT_ONCE = 1 << 18  # candidates beside optima that are scored at a time

Scored = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""As `initialization.Scored`."""
Move = tuple[float, float, float, float, float, float]
"""What is added: to the logarithm of a period, then to its frequency; to the logarithms of the wave's lengthscales, and
that again for each that the period's changes by; to those of the lengthscales of other shapes, and of the noise."""


def refined(
    kernel: Kernel, theta_TMP: Tensor, score_TM: Tensor, index_T: Tensor, scored: Scored
) -> tuple[Tensor, Tensor]:
    """Candidates, the best first, each at the best of the frequencies near by. What leads to the same as a better one
    has an infinite score, as have those that had one before."""
    lengths = _LENGTHS_BESIDE if _others(kernel) else _LENGTHS
    moves = [(0.0, cycles, math.log(by), 0.0, 0.0, 0.0) for by, cycles in itertools.product(lengths, _CYCLES)]
    for wave in _waves(kernel):
        trial_TMOP = _moved(kernel, wave, theta_TMP, moves)
        use_TMO = torch.isfinite(score_TM)[:, :, None].expand(trial_TMOP.shape[:3])
        moved_LP, score_L = scored(index_T[torch.nonzero(use_TMO)[:, 0]], trial_TMOP[use_TMO])
        score_TMO = trial_TMOP.new_full(use_TMO.shape, math.inf).masked_scatter(use_TMO, score_L)
        moved_TMOP = trial_TMOP.masked_scatter(use_TMO[..., None].expand_as(trial_TMOP), moved_LP)
        best_TM, where_TM = score_TMO.min(2)
        there_TMP = moved_TMOP.take_along_dim(where_TM[:, :, None, None], 2)[:, :, 0]
        theta_TMP = torch.where((best_TM < score_TM)[:, :, None], there_TMP, theta_TMP)
        score_TM = torch.minimum(best_TM, score_TM)
    return _distinct(kernel, theta_TMP, score_TM)


def beside(
    kernel: Kernel, limits: Limits, optimum_TP: Tensor, nlml_T: Tensor, most: int, scored: Scored
) -> tuple[Tensor, Tensor]:
    """Where to start again, beside the optima of tasks that have one: at frequencies near by, and at multiples and
    fractions of the period. The best first, and how many of them to use, at most so many."""
    begin_TSP = optimum_TP[:, None].repeat(1, most, 1)
    count_T = torch.zeros_like(nlml_T, dtype=torch.int64)
    moves, waves = _moves(bool(_others(kernel)), bool(limits.fixed_P[-1])), _waves(kernel)
    found = torch.nonzero(torch.isfinite(nlml_T))[:, 0]
    for index_T in found.split(max(1, _AT_ONCE // (len(moves) * len(waves)))):
        trial_TMP = torch.cat([_moved(kernel, wave, optimum_TP[index_T], moves) for wave in waves], 1)
        T, M, P = trial_TMP.shape
        theta_LP, score_L = scored(index_T.repeat_interleave(M), trial_TMP.reshape(T * M, P))
        theta_TMP, score_TM = _distinct(kernel, theta_LP.view(T, M, P), score_L.view(T, M))
        begin_TSP[index_T, : min(most, M)] = theta_TMP[:, :most]
        count_T[index_T] = torch.isfinite(score_TM[:, :most]).sum(1)
    return begin_TSP, count_T


def _moves(has_others: bool, noise_known: bool) -> list[Move]:
    """What to try beside an optimum."""
    kept = (1.0,)
    # A wave of another period is as steep as before where its lengthscale changes against the period.
    near = itertools.product(_NEIGHBORS, (-1, 1), _LONGER if has_others else kept, kept if noise_known else _NOISIER)
    moves = [(0.0, sign * cycles, 0.0, -1.0, math.log(length), math.log(noise)) for cycles, sign, length, noise in near]
    far = itertools.product(_MULTIPLES, (0, -1), _SHORTER if has_others else kept, kept if noise_known else _ROUGHER)
    return moves + [
        (math.log(times), 0.0, 0.0, power, math.log(length), math.log(noise)) for times, power, length, noise in far
    ]


def _waves(kernel: Kernel) -> list[KernelFactor]:
    return [factor for factor in kernel.factors if factor.shape == "periodic"]


def _others(kernel: Kernel) -> list[int]:
    """Lengthscales of shapes that are no waves."""
    own = {position for wave in _waves(kernel) for position in range(wave.start, wave.stop)}
    return [place for place, kind in enumerate(kernel.kinds) if kind == "lengthscale" and place not in own]


def _moved(kernel: Kernel, wave: KernelFactor, theta: Tensor, moves: Sequence[Move]) -> Tensor:
    """Parameters, one row after another, after each of the moves of a wave."""
    times_O, cycles_O, own_O, power_O, others_O, noise_O = theta.new_tensor(moves).unbind(1)
    trial = theta[..., None, :].repeat(*[1] * (theta.ndim - 1), len(moves), 1)
    frequency = torch.exp(-trial[..., wave.start] - times_O)
    trial[..., wave.start] = -torch.log(torch.maximum(frequency + cycles_O, 0.5 * frequency))
    change = trial[..., wave.start] - theta[..., None, wave.start]
    trial[..., wave.start + 1 : wave.stop] += (own_O + power_O * change)[..., None]
    trial[..., _others(kernel)] += others_O[:, None]
    trial[..., -1] += noise_O
    return trial


def _distinct(kernel: Kernel, theta_TMP: Tensor, score_TM: Tensor) -> tuple[Tensor, Tensor]:
    """Candidates, the best first; what leads to the same as a better one has an infinite score."""
    theta_TMP, score_TM = _sorted(theta_TMP, score_TM)
    apart_TMM = ((theta_TMP[:, :, None] - theta_TMP[:, None]).abs() > _OTHER).any(3)
    for period in kernel.periods:
        frequency_TM = torch.exp(-theta_TMP[:, :, period])
        apart_TMM |= (frequency_TM[:, :, None] - frequency_TM[:, None]).abs() > _APART
    earlier_MM = torch.ones_like(apart_TMM[0]).tril(-1) if len(apart_TMM) else apart_TMM
    return _sorted(theta_TMP, torch.where((~apart_TMM & earlier_MM).any(2), math.inf, score_TM))


def _sorted(theta_TMP: Tensor, score_TM: Tensor) -> tuple[Tensor, Tensor]:
    order_TM = torch.argsort(score_TM, dim=1, stable=True)
    return theta_TMP.take_along_dim(order_TM[:, :, None], 1), score_TM.gather(1, order_TM)
