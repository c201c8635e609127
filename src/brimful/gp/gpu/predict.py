"""Predictions as Triton kernels: one lane per task and group of new points.

The twin of `posterior.predict`, for the models that `likelihood.serves`. One kernel factors every covariance
(`cholesky.py`); the new points are then further rows of the factor, four at a time, which many lanes compute from the
same factor, since they are most of the work. So a few thousand tasks fill a GPU, and only their factors need memory.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..model.kernels import Kernel
from ..model.tasks import TaskBatch, Units
from . import blocks
from .blocks import LANES
from .cholesky import add_squared_distances, at, axpy4, factor, fit_mean, known4, mask4, scale, values
from .layout import TaskLayout, lay_out
from .likelihood import SIZES, constants, size, workspace

_AT_ONCE = 1 << 12  # tasks worked on at a time: with their groups they fill a card
_GROUPS = 13  # of a task's new points, each with a lane of its own
_INDEXED = 2**31 - 1  # numbers of all tasks along all dimensions of the inputs


@triton.jit(do_not_specialize=SIZES)
def _factor(
    x, y, known, last, theta, scratch, out_beta, out_good, begin, T, XT, XN, NB, NP, workspace,
    D: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, SHAPE: tl.constexpr, ARD: tl.constexpr,
    INTERPRETED: tl.constexpr,
):  # fmt: skip
    """The factor of every task, and the coefficients of its mean."""
    program = tl.program_id(0)
    t = tl.minimum((begin + program * LANES + tl.arange(0, LANES)).to(tl.int64), T - 1)
    x += t * XT
    A = scratch + program.to(tl.int64) * workspace * LANES + tl.arange(0, LANES)
    Z = A + (NB * (NB + 1)) // 2 * 16 * LANES
    scales = Z + (Q + 1) * NP * LANES
    _logdet, least, _yy, y0, y1, h00, h01, h11 = factor(
        x, y, known, theta + t * P, A, Z, scales, t, T, XN,
        NB if INTERPRETED else tl.max(tl.load(last + t), axis=0), NP, D, P, Q, SHAPE, ARD
    )  # fmt: skip
    c0, c1, _n00, _n01, _n11 = fit_mean(y0, y1, h00, h01, h11, Q)
    if Q > 0:
        tl.store(out_beta + t * Q, c0)
    if Q > 1:
        tl.store(out_beta + t * Q + 1, c1)
    tl.store(out_good + t, tl.where(least > 0.0, 1, 0).to(tl.int8))


@triton.jit
def _new(new, m, zero, over, M, D: tl.constexpr):
    """Four new points along one dimension, in the task's units; beyond the last of them that one again."""
    return (
        (tl.load(new + tl.minimum(m, M - 1) * D) - zero) * over,
        (tl.load(new + tl.minimum(m + 1, M - 1) * D) - zero) * over,
        (tl.load(new + tl.minimum(m + 2, M - 1) * D) - zero) * over,
        (tl.load(new + tl.minimum(m + 3, M - 1) * D) - zero) * over,
    )


@triton.jit
def _predict_points(
    x, known, theta, new, zeros, overs, beta, A, row, out_mean, out_variance, group, t, T, XN, nb, NB, NP, M, item,
    D: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, SHAPE: tl.constexpr, ARD: tl.constexpr,
):  # fmt: skip
    Z = A + (NB * (NB + 1)) // 2 * 16 * LANES
    scales = Z + (Q + 1) * NP * LANES
    variance = tl.exp(tl.load(theta + t * P))
    zero = variance * 0.0
    one = zero + 1.0
    c0, c1 = zero, zero
    if Q > 0:
        c0 = tl.load(beta + t * Q)
    if Q > 1:
        c1 = tl.load(beta + t * Q + 1)
    for step in range(item):
        m = 4 * (group * item + step)
        if m < M:
            mean, left = (zero, zero, zero, zero), (variance, variance, variance, variance)
            for j in range(nb):
                mj = mask4(known4(known, j, t, T))
                R = blocks.zeros(zero)
                for d in tl.static_range(D):
                    a = _new(new + d, m, tl.load(zeros + t * D + d), tl.load(overs + t * D + d), M, D)
                    b = blocks.gather4(x + (d * NP + 4 * j) * XN, XN)
                    R = add_squared_distances(a, b, tl.load(scales + d * ARD * LANES), R)
                K, _derivative = values(R, (one, one, one, one), mj, SHAPE)
                C = scale(K, variance)
                for k in range(j):
                    C = blocks.sub_abt(C, blocks.load(row + 16 * k * LANES), blocks.load(at(A, j, k)))
                X = blocks.solve(blocks.load(at(A, j, j)), C)
                blocks.store(row + 16 * j * LANES, X)
                z = blocks.load4(Z + 4 * j * LANES)
                if Q > 0:
                    z = axpy4(-c0, blocks.load4(Z + (NP + 4 * j) * LANES), z)
                if Q > 1:
                    z = axpy4(-c1, blocks.load4(Z + (2 * NP + 4 * j) * LANES), z)
                mean = blocks.add_av(mean, X, z)
                a0, a1, a2, a3 = blocks.row(X, 0), blocks.row(X, 1), blocks.row(X, 2), blocks.row(X, 3)
                left = (left[0] - blocks.dot4(a0, a0), left[1] - blocks.dot4(a1, a1), left[2] - blocks.dot4(a2, a2),
                        left[3] - blocks.dot4(a3, a3))  # fmt: skip
            for i in tl.static_range(4):
                tl.store(out_mean + t * M + m + i, mean[i], mask=m + i < M)
                tl.store(out_variance + t * M + m + i, left[i], mask=m + i < M)


@triton.jit(do_not_specialize=[*SIZES, "NT", "M", "groups", "item", "own"])
def _points(
    x, known, last, theta, new, zeros, overs, beta, scratch, out_mean, out_variance, begin, T, XT, XN, NT, NB, NP, M,
    workspace, own, groups, item,
    D: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, SHAPE: tl.constexpr, ARD: tl.constexpr,
    INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Mean (less the mean function) and variance of every task at its new points, of which a program takes some.

    Args:
        new: M points of D numbers, NT further on for the next task, less `zeros` and times `overs` in its units.
        workspace, own: numbers of a lane, and those of them that hold the factor; behind these each group has its rows.
        item: blocks of 4 points in a group.
    """
    program, group = tl.program_id(0) // groups, tl.program_id(0) % groups
    t = tl.minimum((begin + program * LANES + tl.arange(0, LANES)).to(tl.int64), T - 1)
    x += t * XT
    new += t * NT
    A = scratch + program.to(tl.int64) * workspace * LANES + tl.arange(0, LANES)
    row = A + (own + group * 4 * NP) * LANES
    _predict_points(x, known, theta, new, zeros, overs, beta, A, row, out_mean, out_variance, group, t, T, XN,
                    NB if INTERPRETED else tl.max(tl.load(last + t), axis=0), NB, NP, M, item, D, P, Q, SHAPE,
                    ARD)  # fmt: skip


def predict(
    kernel: Kernel, tasks: TaskBatch, units: Units, theta_TP: Tensor, new_TMD: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """At new points, given as the data are: the mean less the mean function, and the variance; of each task the mean's
    coefficients, and whether its covariance is positive definite. All but the new points in the tasks' units."""
    T, M, D = new_TMD.shape
    most = max(1, _INDEXED // (D * (tasks.x_TND.shape[1] + 4)))
    if most < T:
        parts = torch.arange(T, device=theta_TP.device).split(most)
        same = new_TMD.stride(0) == 0
        new = [new_TMD[:1].expand(len(i), -1, -1) if same else new_TMD[i] for i in parts]
        result = [
            predict(kernel, tasks.select(i), units.select(i), theta_TP[i], n) for i, n in zip(parts, new, strict=True)
        ]
        return tuple(torch.cat(item) for item in zip(*result, strict=True))  # pyright: ignore[reportReturnType]
    layout, like = lay_out(tasks), {"dtype": torch.float64, "device": theta_TP.device}
    out = (
        torch.empty(T, M, **like), torch.empty(T, M, **like), torch.empty(T, layout.regressors, **like),
        torch.empty(T, dtype=torch.int8, device=theta_TP.device),
    )  # fmt: skip
    if T and M:
        _launch(kernel, layout, units, theta_TP.double().contiguous(), new_TMD.double(), *out)
    return *out[:3], out[3] != 0


def _launch(
    kernel: Kernel, layout: TaskLayout, units: Units, theta_TP: Tensor, new_TMD: Tensor, mean_TM: Tensor,
    variance_TM: Tensor,
    beta_TQ: Tensor, good_T: Tensor,
) -> None:  # fmt: skip
    (T, M, D), NP = new_TMD.shape, len(layout.y_NT)
    new = new_TMD[0].contiguous() if new_TMD.stride(0) == 0 else new_TMD.contiguous()
    item = -(-M // (4 * _GROUPS))
    groups = -(-M // (4 * item))
    factored = workspace(layout, theta_TP.shape[1], False)
    numbers = factored + groups * 4 * NP
    lanes = LANES.value * -(-min(T, _AT_ONCE) // LANES.value)
    scratch = torch.empty(lanes * numbers, dtype=torch.float64, device=mean_TM.device)
    zeros_TD, overs_TD = units.x_offset_TD.double().contiguous(), (1 / units.x_scale_TD.double()).contiguous()
    first, second, compiled = _factor, _points, constants(kernel, layout, theta_TP.shape[1])
    for begin in range(0, T, lanes):
        programs = -(-min(lanes, T - begin) // LANES.value)
        first[(programs,)](
            layout.x_DNT, layout.y_NT, layout.known, layout.last_T, theta_TP, scratch, beta_TQ, good_T, begin, T,
            *layout.strides,
            size(NP // 4), NP, numbers, **compiled,
        )  # fmt: skip
        second[(programs * groups,)](
            layout.x_DNT, layout.known, layout.last_T, theta_TP, new, zeros_TD, overs_TD, beta_TQ, scratch, mean_TM,
            variance_TM, begin, T, *layout.strides, M * D if new.dim() == 3 else 0, size(NP // 4), NP, M, numbers,
            factored, groups, size(item), **compiled,
        )  # fmt: skip
