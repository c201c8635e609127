"""The lowest score of each lengthscale in a shared eigenbasis, as one Triton kernel: a program has some tasks, and goes
through the lengthscales.

The twin of `eigen.lowest`, where the method is explained: nothing of the grid of scores leaves the chip.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .priors import Limits

_TOGETHER = 64  # tasks of one program
MOST_POINTS = 128
_PRECISION, _WARPS = "tf32x3", 4


@triton.jit
def _at(grid, r, place):
    return tl.sum(tl.where(r[None, :] == place[:, None], grid, 0.0), axis=1)


@triton.jit
def _curve(a, b, c, d, e):
    return (
        (a - 8 * b + 8 * d - e) / 12, (-a + 16 * b - 30 * c + 16 * d - e) / 24, (-a + 2 * b - 2 * d + e) / 12,
        (a - 4 * b + 6 * c - 4 * d + e) / 24,
    )  # fmt: skip


@triton.jit
def _value(c, k, s):
    return c + s * (k[0] + s * (k[1] + s * (k[2] + s * k[3])))


@triton.jit(do_not_specialize=["T", "N"])
def _lowest(
    y, V, W, M, logdet, log_l, log_r, centre, precision, out_score, out_ratio, out_log_v, T, N, L: tl.constexpr,
    R: tl.constexpr, Q: tl.constexpr, PULLED: tl.constexpr, B: tl.constexpr, S: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0) * S + tl.arange(0, S)
    n = tl.arange(0, B)
    r = tl.arange(0, R)
    here = t < T
    data = tl.load(y + t.to(tl.int64)[:, None] * N + n[None, :], mask=here[:, None] & (n < N)[None, :], other=0.0)
    ratio = tl.load(log_r + r)
    between = tl.load(log_r + 1) - tl.load(log_r)
    for place in range(L):
        basis = tl.load(V + place * B * B + n[:, None] * B + n[None, :])
        z = tl.dot(data, basis, input_precision=PRECISION)
        weight = tl.load(W + place * B * R + n[:, None] * R + r[None, :])
        q = tl.dot(z * z, weight, input_precision=PRECISION)
        for c in tl.static_range(Q):
            mean = tl.load(M + (place * Q + c) * B * R + n[:, None] * R + r[None, :])
            taken = tl.dot(z, mean, input_precision=PRECISION)
            q -= taken * taken
        log_v = tl.log(tl.maximum(q / N, 1e-30))
        score = 0.5 * tl.load(logdet + place * R + r)[None, :] + 0.5 * N * log_v
        if PULLED:
            by_v = log_v - tl.load(centre + t * 3, mask=here, other=0.0)[:, None]
            by_l = tl.load(log_l + place) - tl.load(centre + t * 3 + 1, mask=here, other=0.0)[:, None]
            by_n = log_v + ratio[None, :] - tl.load(centre + t * 3 + 2, mask=here, other=0.0)[:, None]
            score += 0.5 * tl.load(precision) * by_v * by_v + 0.5 * tl.load(precision + 1) * by_l * by_l
            score += 0.5 * tl.load(precision + 2) * by_n * by_n
        first = tl.min(score, axis=1)
        lowest = tl.min(tl.where(score == first[:, None], r[None, :], R), axis=1)
        lowest = tl.minimum(tl.maximum(lowest, 2), R - 3)
        middle = _at(score, r, lowest)
        k = _curve(_at(score, r, lowest - 2), _at(score, r, lowest - 1), middle, _at(score, r, lowest + 1),
                   _at(score, r, lowest + 2))  # fmt: skip
        step = middle * 0.0
        for _ in tl.static_range(4):
            slope = k[0] + step * (2 * k[1] + step * (3 * k[2] + step * 4 * k[3]))
            bend = 2 * k[1] + step * (6 * k[2] + step * 12 * k[3])
            sign = tl.where(slope > 0.0, 1.0, tl.where(slope < 0.0, -1.0, 0.0))
            step -= tl.where(bend > 0.0, slope / tl.maximum(bend, 1e-6), sign)
            step = tl.minimum(tl.maximum(step, -1.0), 1.0)
        scale = _at(log_v, r, lowest)
        v = _curve(_at(log_v, r, lowest - 2), _at(log_v, r, lowest - 1), scale, _at(log_v, r, lowest + 1),
                   _at(log_v, r, lowest + 2))  # fmt: skip
        to = t.to(tl.int64) * L + place
        tl.store(out_score + to, _value(middle, k, step), mask=here)
        tl.store(out_ratio + to, tl.load(log_r) + (lowest.to(tl.float32) + step) * between, mask=here)
        tl.store(out_log_v + to, _value(scale, v, step), mask=here)


def serves(points: int, regressors: int) -> bool:
    """Whether the kernel can do it."""
    return points <= MOST_POINTS and regressors <= 2


def lowest(
    y_TN: Tensor, bases: tuple[Tensor, Tensor, Tensor, Tensor], limits: Limits, log_l: Tensor, log_r: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """For each task and lengthscale the lowest score over a continuous ratio, with the ratio and the variance there."""
    V_LNN, W_LNR, M_LQNR, logdet_LR = bases
    (T, N), (L, _, R), Q = y_TN.shape, W_LNR.shape, M_LQNR.shape[1]
    device, B = y_TN.device, max(16, triton.next_power_of_2(N))
    fill = B - N
    out = [torch.empty(T, L, dtype=torch.float32, device=device) for _ in range(3)]
    pad = torch.nn.functional.pad
    run: Any = _lowest
    run[(-(-T // _TOGETHER),)](
        y_TN.float().contiguous(), pad(V_LNN, (0, fill, 0, fill)), pad(W_LNR, (0, 0, 0, fill)).contiguous(),
        pad(M_LQNR, (0, 0, 0, fill)).contiguous(), logdet_LR.contiguous(), log_l.float().to(device),
        log_r.float().to(device), limits.centre_TP.float().contiguous(), limits.precision_P.float(), *out, T, N, L=L,
        R=R, Q=Q, PULLED=bool(limits.precision_P.any()), B=B, S=_TOGETHER, PRECISION=_PRECISION, num_warps=_WARPS,
    )  # fmt: skip
    return out[0], out[1], out[2]
