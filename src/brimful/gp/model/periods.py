"""The periods of waves: how short they may be, and which to begin from.

Legend: T tasks, N points, D input dimensions, P parameters, W waves of a kernel, G gaps between points, K frequencies,
M peaks, F initial values.

In a task's units the extent of its inputs is 1, and a frequency is how often a wave fits into it. Evenly spaced points
cannot tell a period below twice their spacing from one above, and what is predicted between them is then worthless. A
likelihood has a local minimum for nearly every cycle more or less, so that initial values must be near the right one:
they are the peaks of the task's own periodogram, their multiples, and a grid for what is no sine.
"""

import math
from collections.abc import Collection
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from .initial_grid import FREQUENCIES
from .kernels import Kernel
from .priors import Limits
from .tasks import TaskBatch

_SAME = 1e-9  # inputs less than this apart are one
_CLOSE = 10  # one in so many gaps may be smaller than the spacing: readings that were taken twice say nothing of it
_SHORTEST, _LONGEST = 0.5, 1.0  # where the lower bound ends: over the number of points, and of the extent
_NARROW, _REACH = 1.0, 3.0  # the spread of a prior that says where to look, and how many of it to go
_STEP, _MOST = 0.2, 1 << 16  # cycles from one frequency of a periodogram to the next, and the most of them
_HIGHEST = 1e12  # cycles: beyond it, a wave is no wave in float64
_TOGETHER = 1 << 18  # frequencies of all tasks at a time
_FINE = 64  # parts of a step that a peak is found to: finer, rounding would show
_LED = ((12, 1.0), (12, 0.5), (6, 1 / 3), (6, 2.0))  # so many peaks, times so much: they may be harmonics
_PEAKS = max(count for count, _ in _LED)
_DISTINCT = 1e-2  # of the square of their number: below it, points hardly tell a sine from a cosine, or from a level
_APART = 0.5  # cycles between two waves of a kernel


def bound_periods(limits: Limits, kernel: Kernel, tasks: TaskBatch, given: Collection[str]) -> Limits:
    """The limits, with lower bounds of the periods that were not given: as short as the task's points can tell."""
    positions = [position for position in kernel.periods if kernel.names[position] not in given]
    if not positions:
        return limits
    low_TP = limits.low_TP.clone()
    low_TP[:, positions] = torch.log(_shortest(tasks))[:, None].to(low_TP.dtype)
    return replace(limits, low_TP=low_TP)


def _shortest(tasks: TaskBatch) -> Float[Tensor, " T"]:
    """The shortest period that a task's points can tell: twice their spacing."""
    x_TDN = torch.where(tasks.mask_TN[:, :, None], tasks.x_TND, math.inf).mT.sort(-1).values
    none_TD1 = x_TDN.new_full((*x_TDN.shape[:2], 1), math.inf)
    gap_TG = torch.cat([x_TDN.diff(dim=-1), none_TD1], -1).flatten(1)
    gap_TG = torch.where((gap_TG > _SAME) & torch.isfinite(gap_TG), gap_TG, math.inf).sort(-1).values
    some_T1 = torch.isfinite(gap_TG).sum(1, keepdim=True) // _CLOSE
    spacing_T = gap_TG.gather(1, some_T1)[:, 0]
    count_T = tasks.mask_TN.sum(1).clamp(min=1)
    return torch.maximum(2 * spacing_T, _SHORTEST / count_T).clamp(max=_LONGEST)


def initial_periods(kernel: Kernel, tasks: TaskBatch, limits: Limits) -> Float[Tensor, "T F W"]:
    """Initial values of the logarithms of the periods, the shortest first; those of each task from its data alone."""
    positions, T = kernel.periods, len(tasks)
    result = limits.low_TP.new_empty(T, len(FREQUENCIES), len(positions))
    if not positions or T == 0:
        return result
    least_TW, most_TW = _range(limits, positions)
    for wave in range(len(positions)):
        least_T, most_T = least_TW[:, wave], most_TW[:, wave]
        peaks_TM = _peaks(tasks, least_T, most_T)
        if wave == 0:
            result[:, :, 0] = _candidates(peaks_TM, least_T, most_T)
        else:  # the strongest that no wave before it has
            near_TF = ((result[:, :, :1] - peaks_TM[:, None, :wave]).abs() < _APART).any(2)
            index_TF = (wave - 1 + near_TF.long()).clamp(max=_PEAKS - 1)
            result[:, :, wave] = peaks_TM.gather(1, index_TF)
    return -torch.log(result)


def _range(limits: Limits, positions: list[int]) -> tuple[Float[Tensor, "T W"], Float[Tensor, "T W"]]:
    """The frequencies between the bounds that a narrow prior does not rule out."""
    low_TW, high_TW, center_TW = (item[:, positions] for item in (limits.low_TP, limits.high_TP, limits.center_TP))
    spread_W = limits.precision_P[positions].rsqrt()
    reach_W = torch.where(spread_W < _NARROW, _REACH * spread_W, math.inf)
    shortest_TW, longest_TW = (torch.clamp(center_TW + item, low_TW, high_TW) for item in (-reach_W, reach_W))
    return torch.exp(-longest_TW), torch.exp(-shortest_TW).clamp(max=_HIGHEST)


def _candidates(peaks_TM: Tensor, least_T: Tensor, most_T: Tensor) -> Float[Tensor, "T F"]:
    """Peaks, what they may be harmonics of, and a grid; the highest frequency first."""
    led = []
    for count, factor in _LED:
        some_TM = factor * peaks_TM[:, :count]
        inside_TM = (some_TM >= least_T[:, None]) & (some_TM <= most_T[:, None])
        led.append(torch.where(inside_TM, some_TM, peaks_TM[:, :count]))
    led_TF = torch.cat(led, 1)
    grid_TF = _grid(least_T, most_T, len(FREQUENCIES) - led_TF.shape[1])
    return torch.cat([led_TF, grid_TF], 1).sort(1, descending=True).values


def _grid(least_T: Tensor, most_T: Tensor, count: int) -> Float[Tensor, "T F"]:
    """Frequencies over the usual ones that are allowed, or an octave of higher ones; denser where waves are long."""
    first_T = _first(least_T, most_T)
    last_T = (2 * first_T).clamp(min=FREQUENCIES[-1]).minimum(most_T)
    along_F = torch.linspace(0, 1, count, dtype=least_T.dtype, device=least_T.device)
    grid_TF = torch.lerp(first_T.sqrt()[:, None], last_T.sqrt()[:, None], along_F).square()
    return torch.clamp(grid_TF, first_T[:, None], most_T[:, None])


def _first(least_T: Tensor, most_T: Tensor) -> Float[Tensor, " T"]:
    """The lowest frequency to look at: of longer waves the task has too little to tell them apart."""
    return least_T.clamp(min=FREQUENCIES[0]).minimum(most_T)


def _peaks(tasks: TaskBatch, least_T: Tensor, most_T: Tensor) -> Float[Tensor, "T M"]:
    """The frequencies of the highest peaks of each periodogram, the highest first, and again if there are too few."""
    first_T = _first(least_T, most_T)
    step_T = ((most_T - first_T) / _MOST).clamp(min=_STEP)
    count_T = ((most_T - first_T) / step_T).ceil().long() + 1
    index_K = torch.arange(int(count_T.max()), device=count_T.device)
    parts = []
    for some in torch.arange(len(tasks), device=count_T.device).split(max(1, _TOGETHER // len(index_K))):
        frequency_TK = (first_T[some, None] + index_K * step_T[some, None]).minimum(most_T[some, None])
        power_TK = _periodogram(tasks.select(some), frequency_TK)
        power_TK = torch.where(index_K < count_T[some, None], power_TK, -1.0)
        parts.append(_highest(frequency_TK, power_TK, step_T[some]))
    return torch.clamp(torch.cat(parts), first_T[:, None], most_T[:, None])


def _highest(frequency_TK: Tensor, power_TK: Tensor, step_T: Tensor) -> Float[Tensor, "T M"]:
    """The peaks, each at the top of the parabola through it and its neighbors."""
    padded = torch.nn.functional.pad(power_TK, (1, 1), value=-1.0)
    before_TK, after_TK = padded[:, :-2], padded[:, 2:]
    peak_TK = (power_TK > before_TK) & (power_TK >= after_TK)
    curvature_TK = 2 * power_TK - before_TK - after_TK
    inner_TK = (before_TK >= 0) & (after_TK >= 0) & (curvature_TK > 0)
    off_TK = torch.where(inner_TK, (after_TK - before_TK) / (2 * curvature_TK), 0.0)
    top_TK = frequency_TK + torch.round(off_TK * _FINE) / _FINE * step_T[:, None]
    height_TK, order_TK = torch.where(peak_TK, power_TK, -1.0).sort(dim=1, descending=True, stable=True)
    index_TM = torch.where(height_TK >= 0, order_TK, order_TK[:, :1])[:, :_PEAKS]
    again_TM = index_TM[:, :1].expand(-1, _PEAKS - index_TM.shape[1])
    return top_TK.gather(1, torch.cat([index_TM, again_TM], 1))


def _periodogram(tasks: TaskBatch, frequency_TK: Tensor) -> Float[Tensor, "T K"]:
    """How much of the targets, less their trend, a sine of each frequency with a level explains by least squares, over
    all dimensions of the inputs: what uneven points make of it moves no peak, as it does where sums are only squared.
    In float32, so that the order of a few sums decides nothing."""
    off_TN, there_TN = _detrended(tasks), tasks.mask_TN.to(frequency_TK.dtype)
    count_T1, power_TK = there_TN.sum(1, keepdim=True).clamp(min=1), torch.zeros_like(frequency_TK)
    for x_TN in tasks.x_TND.unbind(2):
        even, odd, even_y, odd_y, even_even, even_odd = frequency_TK.new_zeros(6, *frequency_TK.shape)
        for x_T, off_T, there_T in zip(x_TN.unbind(1), off_TN.unbind(1), there_TN.unbind(1), strict=True):
            angle_TK = frequency_TK * (2 * math.pi * x_T[:, None])
            cosine, sine = torch.cos(angle_TK) * there_T[:, None], torch.sin(angle_TK) * there_T[:, None]
            even += cosine
            odd += sine
            even_y.addcmul_(cosine, off_T[:, None])
            odd_y.addcmul_(sine, off_T[:, None])
            even_even.addcmul_(cosine, cosine)
            even_odd.addcmul_(cosine, sine)
        odd_odd = count_T1 - even_even - odd.square() / count_T1
        even_even, even_odd = even_even - even.square() / count_T1, even_odd - even * odd / count_T1
        determinant = even_even * odd_odd - even_odd.square()
        explained = odd_odd * even_y.square() + even_even * odd_y.square() - 2 * even_odd * even_y * odd_y
        distinct = determinant > _DISTINCT * count_T1.square()
        plain = 2 * (even_y.square() + odd_y.square()) / count_T1
        power_TK += torch.where(distinct, explained / torch.where(distinct, determinant, 1.0), plain)
    power_TK = power_TK.float()
    return torch.where(torch.isfinite(power_TK), power_TK, 0.0)


def _detrended(tasks: TaskBatch) -> Float[Tensor, "T N"]:
    """The targets less their mean, and less their slope along each dimension, one after another: what drifts would
    drown the waves."""
    count_T1 = tasks.mask_TN.sum(1, keepdim=True).clamp(min=1)

    def centered(some_TN: Tensor) -> Tensor:
        return torch.where(tasks.mask_TN, some_TN - some_TN.sum(1, keepdim=True) / count_T1, 0.0)

    off_TN = centered(tasks.y_TN)
    for x_TN in tasks.x_TND.unbind(2):
        along_TN = centered(x_TN)
        slope_T1 = (along_TN * off_TN).sum(1, keepdim=True) / along_TN.square().sum(1, keepdim=True).clamp(min=_SAME)
        off_TN = off_TN - slope_T1 * along_TN
    return off_TN
