"""Initial values in a shared eigenbasis as two Triton kernels, the twins of `lowest` and `begin` in
`gp.optimize.eigenbasis`, where the method is explained.

The first finds the lowest score of each lengthscale: a program has some tasks, and goes through the lengthscales;
nothing of the grid of scores leaves the chip. The second finds the local minima among the lengthscales.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..model.priors import Limits
from ..optimize import polynomial
from ..optimize.eigenbasis import REACH, WORTH, Bases, Grids

_TOGETHER, _CHOSEN = 64, 16  # tasks of one program, of each kernel
_AT_ONCE = 1 << 15  # tasks at a time: the scores of all lengthscales take many times what a start does
MOST_POINTS = 128
_PRECISION, _WARPS = "tf32x3", 4
_through, _value, _derivative, _curvature = (
    function if triton.knobs.runtime.interpret else triton.jit(function)  # the interpreter calls plain functions
    for function in (polynomial.through, polynomial.value, polynomial.derivative, polynomial.curvature)
)


@triton.jit
def _at(grid, r, position):
    return tl.sum(tl.where(r[None, :] == position[:, None], grid, 0.0), axis=1)


@triton.jit
def _down(k, near, REACH: tl.constexpr):
    """Where a curve is lowest within a step of the lowest of its points, in steps from its middle."""
    low, high, step = tl.maximum(near - 1.0, -REACH), tl.minimum(near + 1.0, REACH), near
    for _ in tl.static_range(4):
        derivative, curvature = _derivative(k, step), _curvature(k, step)
        sign = tl.where(derivative > 0.0, 1.0, tl.where(derivative < 0.0, -1.0, 0.0))
        step -= tl.where(curvature > 0.0, derivative / tl.maximum(curvature, 1e-6), sign)
        step = tl.minimum(tl.maximum(step, low), high)
    return step


@triton.jit
def _around(grid, at, here):
    """The polynomial through seven points beside each other."""
    middle = tl.load(grid + at, mask=here, other=0.0)
    return _through(
        tl.load(grid + at - 3, mask=here, other=0.0), tl.load(grid + at - 2, mask=here, other=0.0),
        tl.load(grid + at - 1, mask=here, other=0.0), middle, tl.load(grid + at + 1, mask=here, other=0.0),
        tl.load(grid + at + 2, mask=here, other=0.0), tl.load(grid + at + 3, mask=here, other=0.0),
    )  # fmt: skip


@triton.jit
def _across(grid, r, at):
    """The same, of a grid that a program has."""
    return _through(
        _at(grid, r, at - 3), _at(grid, r, at - 2), _at(grid, r, at - 1), _at(grid, r, at), _at(grid, r, at + 1),
        _at(grid, r, at + 2), _at(grid, r, at + 3),
    )  # fmt: skip


@triton.jit(do_not_specialize=["first", "T"])
def _begin(
    score, ratio, log_v, positions, starts, counts, first, T, REACH: tl.constexpr, L: tl.constexpr, LB: tl.constexpr,
    STARTS: tl.constexpr, WORTH: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    """Of each task the lengthscales without a better neighbor, best first, each where the curve through it and those
    beside it is lowest; and from how many of them to descend."""
    t = tl.program_id(0).to(tl.int64) * S + tl.arange(0, S)
    here = t < T
    l = tl.arange(0, LB)  # noqa: E741, a lengthscale
    at = t[:, None] * L + l[None, :]
    there = here[:, None] & (l < L)[None, :]
    value = tl.load(score + at, mask=there, other=float("inf"))
    low = (value <= tl.load(score + at - 1, mask=there & (l > 0)[None, :], other=float("inf"))) & (
        value <= tl.load(score + at + 1, mask=there & (l < L - 1)[None, :], other=float("inf"))
    )
    value = tl.where(low & there, value, float("inf"))
    between = tl.load(positions + 1) - tl.load(positions)
    best = tl.min(value, axis=1)
    result = t * 0
    for s in range(STARTS):
        least = tl.min(value, axis=1)
        position = tl.min(tl.where(value == least[:, None], l[None, :], LB), axis=1)
        value = tl.where(l[None, :] == position[:, None], float("inf"), value)
        result += tl.where(least <= best + WORTH, 1, 0)
        middle = tl.minimum(tl.maximum(position, REACH), L - 1 - REACH)
        spot = t * L + middle
        k = _around(score, spot, here)
        step = _down(k, (position - middle).to(tl.float32), REACH)
        scale = _around(ratio, spot, here)
        variance = _value(_around(log_v, spot, here), step)
        to = starts + ((first + t) * STARTS + s) * 3
        tl.store(to, variance.to(tl.float64), mask=here)
        tl.store(to + 1, tl.load(positions + middle) + step.to(tl.float64) * between, mask=here)
        tl.store(to + 2, (variance + _value(scale, step)).to(tl.float64), mask=here)
    tl.store(counts + first + t, tl.maximum(result, 1).to(tl.int32), mask=here)


@triton.jit(do_not_specialize=["T", "N"])
def _lowest(
    y, V, W, M, logdet, log_l, log_r, center, precision, out_score, out_ratio, out_log_v, T, N, L: tl.constexpr,
    R: tl.constexpr, Q: tl.constexpr, HAS_PRIORS: tl.constexpr, STEPS: tl.constexpr, REACH: tl.constexpr,
    B: tl.constexpr,
    S: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0) * S + tl.arange(0, S)
    n = tl.arange(0, B)
    r = tl.arange(0, R)
    here = t < T
    data = tl.load(y + t.to(tl.int64)[:, None] * N + n[None, :], mask=here[:, None] & (n < N)[None, :], other=0.0)
    ratio = tl.load(log_r + r)
    between = tl.load(log_r + 1) - tl.load(log_r)
    for position in range(L):
        basis = tl.load(V + position * B * B + n[:, None] * B + n[None, :])
        z = tl.dot(data, basis, input_precision=PRECISION)
        weight = tl.load(W + position * B * R + n[:, None] * R + r[None, :])
        q = tl.dot(z * z, weight, input_precision=PRECISION)
        for c in tl.static_range(Q):
            mean = tl.load(M + (position * Q + c) * B * R + n[:, None] * R + r[None, :])
            taken = tl.dot(z, mean, input_precision=PRECISION)
            q -= taken * taken
        log_v = tl.log(tl.maximum(q / N, 1e-30))
        score = 0.5 * tl.load(logdet + position * R + r)[None, :] + 0.5 * N * log_v
        if HAS_PRIORS:
            weight_v, weight_n = tl.load(precision), tl.load(precision + 2)
            from_v = log_v - tl.load(center + t * 3, mask=here, other=0.0)[:, None]
            from_l = tl.load(log_l + position) - tl.load(center + t * 3 + 1, mask=here, other=0.0)[:, None]
            from_n = log_v + ratio[None, :] - tl.load(center + t * 3 + 2, mask=here, other=0.0)[:, None]
            score += 0.5 * tl.load(precision + 1) * from_l * from_l
            if STEPS > 0:
                move = log_v * 0.0
                for _ in range(STEPS):
                    least = 0.5 * N * tl.exp(-move)
                    derivative = 0.5 * N - least + weight_v * (from_v + move) + weight_n * (from_n + move)
                    move -= tl.minimum(tl.maximum(derivative / (least + weight_v + weight_n), -2.0), 2.0)
                score += 0.5 * N * (move + tl.exp(-move) - 1.0)
                from_v += move
                from_n += move
                score += 0.5 * (weight_v * from_v * from_v + weight_n * from_n * from_n)
            else:
                score += 0.5 * (weight_v * from_v * from_v + weight_n * from_n * from_n)
                derivative, curvature = weight_v * from_v + weight_n * from_n, 0.5 * N + weight_v + weight_n
                move = tl.minimum(tl.maximum(-derivative / curvature, -0.7), 0.7)
                move += 0.25 * N / curvature * move * move
                score += move * (derivative + move * (0.5 * curvature + move * (move * N / 48 - N / 12)))
            log_v += move
        first = tl.min(score, axis=1)
        lowest = tl.min(tl.where(score == first[:, None], r[None, :], R), axis=1)
        middle = tl.minimum(tl.maximum(lowest, REACH), R - 1 - REACH)
        k = _across(score, r, middle)
        step = _down(k, (lowest - middle).to(tl.float32), REACH)
        v = _across(log_v, r, middle)
        to = t.to(tl.int64) * L + position
        tl.store(out_score + to, _value(k, step), mask=here)
        tl.store(out_ratio + to, tl.load(log_r) + (middle.to(tl.float32) + step) * between, mask=here)
        tl.store(out_log_v + to, _value(v, step), mask=here)


def serves(points: int, regressors: int) -> bool:
    """Whether the kernel can do it."""
    return points <= MOST_POINTS and regressors <= 2


Prepared = tuple[tuple[Tensor, ...], Tensor, dict[str, Any]]
"""What `_lowest` takes for all tasks alike: its tensors, the precision of the priors, and what it has compiled in."""


def prepare(bases: Bases, limits: Limits, grids: Grids) -> Prepared:
    """What is the same for all tasks, as the kernel takes it."""
    (V_LNN, W_LNR, M_LQNR, logdet_LR), (_, log_l_L, log_r_R) = bases, grids
    L, N, R = W_LNR.shape
    B, device, pad = max(16, triton.next_power_of_2(N)), V_LNN.device, torch.nn.functional.pad
    tensors = (
        pad(V_LNN, (0, B - N, 0, B - N)).contiguous(), pad(W_LNR, (0, 0, 0, B - N)).contiguous(),
        pad(M_LQNR, (0, 0, 0, B - N)).contiguous(), logdet_LR.contiguous(), log_l_L.float().to(device),
        log_r_R.float().to(device),
    )  # fmt: skip
    compiled = {
        "L": L, "R": R, "Q": M_LQNR.shape[1], "HAS_PRIORS": bool(limits.precision_P.any()), "STEPS": limits.steps(N),
        "REACH": REACH, "B": B, "S": _TOGETHER, "PRECISION": _PRECISION, "num_warps": _WARPS,
    }  # fmt: skip
    return tensors, limits.precision_P.float(), compiled


def lowest(y_TN: Tensor, center_TP: Tensor, prepared: Prepared) -> tuple[Tensor, Tensor, Tensor]:
    """For each task and lengthscale the lowest score over a continuous ratio, with the ratio and the variance there."""
    (T, N), (tensors, precision_P, compiled), run = y_TN.shape, prepared, _lowest
    like: dict[str, Any] = {"dtype": torch.float32, "device": y_TN.device}
    score_TL, ratio_TL, log_v_TL = (torch.empty(T, compiled["L"], **like) for _ in range(3))
    run[(-(-T // _TOGETHER),)](
        y_TN.float().contiguous(), *tensors, center_TP.float().contiguous(), precision_P, score_TL, ratio_TL, log_v_TL,
        T, N, **compiled,
    )  # fmt: skip
    return score_TL, ratio_TL, log_v_TL


def search(y_TN: Tensor, bases: Bases, limits: Limits, grids: Grids, most: int) -> tuple[Tensor, Tensor]:
    """As `search` in `gp.optimize.eigenbasis`."""
    T, L, device, prepared = len(y_TN), len(grids[0]), y_TN.device, prepare(bases, limits, grids)
    count = min(most, L)
    starts_TSP = torch.empty(T, count, 3, dtype=torch.float64, device=device)
    count_T = torch.empty(T, dtype=torch.int32, device=device)
    positions, run = grids[0].double().to(device), _begin
    for first in range(0, T, _AT_ONCE):
        some = slice(first, min(T, first + _AT_ONCE))
        result = lowest(y_TN[some], limits.center_TP[some], prepared)
        run[(-(-len(result[0]) // _CHOSEN),)](
            *result, positions, starts_TSP, count_T, first, len(result[0]), REACH=REACH, L=L,
            LB=triton.next_power_of_2(L), STARTS=count, WORTH=WORTH, S=_CHOSEN, num_warps=2,
        )  # fmt: skip
    return starts_TSP, count_T
