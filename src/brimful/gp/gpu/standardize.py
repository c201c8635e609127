"""Tasks scaled to units of their own as one Triton kernel, and written as the other kernels read them.

The twin of `tasks.standardize`, where it is explained; nothing but the result is ever in memory.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..model.kernels import Kernel
from ..model.tasks import TaskBatch, TaskStatus, Units, coefficients

MOST_POINTS = 2048
_NUMBERS = 2048  # of one program: tasks times points


def serves(kernel: object, points: int) -> bool:
    """Whether the kernel can measure them."""
    return isinstance(kernel, Kernel) and 0 < points <= MOST_POINTS


@triton.jit
def _finite(x):
    return tl.abs(x) < float("inf")  # not of a NaN


@triton.jit
def _extent(x, mask, d, xd):
    """The least of the inputs along a dimension, and how far they reach."""
    value = tl.load(x + d * xd, mask=mask, other=0.0).to(tl.float64)
    low = tl.min(tl.where(mask, value, float("inf")), axis=1)
    high = tl.max(tl.where(mask, value, float("-inf")), axis=1)
    return tl.where(_finite(low), low, 0.0), tl.where(_finite(high), high - tl.where(_finite(low), low, 0.0), 0.0)


@triton.jit(do_not_specialize=["T", "N", "up"])
def _standardize(
    x, y, noise, out_x, out_y, out_mask, out_noise, x_offset, x_scale, y_offset, y_scale, out_flag, T, N, up,
    xt, xn, xd, yt, yn, kt, kn, FLAT, FEW, EMPTY, INVALID,
    D: tl.constexpr, Q: tl.constexpr, KNOWN: tl.constexpr, CENTERED: tl.constexpr, EACH: tl.constexpr,
    SHIFTED: tl.constexpr, OWN: tl.constexpr, NB: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0).to(tl.int64) * S + tl.arange(0, S)
    n = tl.arange(0, NB).to(tl.int64)
    mine = t < T
    there = mine[:, None] & (n < N)[None, :]
    value = tl.load(y + t[:, None] * yt + n[None, :] * yn, mask=there, other=0.0).to(tl.float64)
    x += t[:, None] * xt + n[None, :] * xn
    mask = there & (value == value)
    bad = tl.abs(value) == float("inf")
    for d in tl.static_range(D):
        coordinate = tl.load(x + d * xd, mask=there, other=0.0).to(tl.float64)
        mask = mask & (coordinate == coordinate)
        bad = bad | (tl.abs(coordinate) == float("inf"))
    known = tl.full([S, NB], 0.0, tl.float64)
    if KNOWN:
        known = tl.load(noise + t[:, None] * kt + n[None, :] * kn, mask=there, other=0.0).to(tl.float64)
        bad = bad | ~(_finite(known) & (known >= 0.0))
    invalid = tl.max((bad & mask).to(tl.int32), axis=1) > 0
    mask = mask & ~invalid[:, None]
    tl.store(out_mask + t[:, None] * N + n[None, :], mask.to(tl.uint8), mask=there)

    # The targets: taken off is their mean, and what is left has variance 1.
    count = tl.sum(mask.to(tl.int32), axis=1)
    few = tl.maximum(count, 1).to(tl.float64)
    value = tl.where(mask, value, 0.0)
    center = few * 0.0
    if CENTERED:
        center = tl.sum(value / few[:, None], axis=1)
    off = tl.where(mask, value - center[:, None], 0.0)
    most = tl.max(tl.abs(off), axis=1)
    most = tl.where(most > 0.0, most, 1.0)  # squares of numbers near 1 neither overflow nor vanish
    part = off / most[:, None]
    spread = most * tl.sqrt(tl.sum(part * part, axis=1) / few)
    scale = tl.where((spread > 0.0) & _finite(spread), spread, 1.0)
    tl.store(y_offset + t, center, mask=mine)
    tl.store(y_scale + t, scale, mask=mine)
    filled = mine[:, None] & (n < up)[None, :]
    to = n[None, :] * T + t[:, None]
    tl.store(out_y + to, off / scale[:, None], mask=filled)
    if KNOWN:
        known = tl.where(mask, known, 0.0) / (scale * scale)[:, None]
        tl.store(out_noise + t[:, None] * N + n[None, :], known, mask=there)

    # The inputs: from 0 to 1, along each dimension or along the longest.
    widest = few * 0.0
    for d in tl.static_range(D):
        _low, extent = _extent(x, mask, d, xd)
        widest = tl.maximum(widest, extent)
    beyond = ~_finite(center + scale) | (scale > 1e17) | (scale < 1e-14)
    for d in tl.static_range(D):
        low, extent = _extent(x, mask, d, xd)
        if not EACH:
            extent = widest
        if not SHIFTED:
            low = low * 0.0
        reach = tl.where(extent > 0.0, extent, 1.0)
        beyond = beyond | (reach > 1e30) | (reach < 1e-30)
        tl.store(x_offset + t * D + d, low, mask=mine)
        tl.store(x_scale + t * D + d, reach, mask=mine)
        if OWN:
            coordinate = tl.load(x + d * xd, mask=mask, other=0.0).to(tl.float64)
            coordinate = tl.where(mask, (coordinate - low[:, None]) / reach[:, None], 0.0)
            tl.store(out_x + d * up.to(tl.int64) * T + to, coordinate, mask=filled)

    flat = tl.max(tl.abs(off), axis=1) <= 1e-12 * tl.max(tl.abs(value), axis=1)
    flag = tl.where(flat, FLAT, 0)
    flag = tl.where(count <= Q, FEW, flag)
    flag = tl.where(count == 0, EMPTY, flag)
    flag = tl.where(invalid | (beyond & ~flat), INVALID, flag)
    tl.store(out_flag + t, flag.to(tl.int64), mask=mine)


def standardize(
    x_TND: Tensor, y_TN: Tensor, kernel: Kernel, mean: str, known_TN: Tensor | None = None, once: bool = False
) -> tuple[TaskBatch, Units, Tensor]:
    """The tasks in their own units, those units, and the `TaskStatus` of tasks that cannot be fitted (0 for the
    others).

    `once`: inputs that all tasks share, none of them missing, are kept once. That is for kernels, which read the same
    numbers either way; torch may add in another order.
    """
    if once and len(y_TN) > 1 and x_TND.stride(0) == 0:
        result = _prepare(x_TND, y_TN, kernel, mean, known_TN, False)
        if bool(result[0].mask_TN.all()):
            return result
        del result  # before there is more
    return _prepare(x_TND, y_TN, kernel, mean, known_TN, True)


def _prepare(
    x_TND: Tensor, y_TN: Tensor, kernel: Kernel, mean: str, known_TN: Tensor | None, own: bool
) -> tuple[TaskBatch, Units, Tensor]:
    """As `standardize`, with inputs for each task or, not `own`, those of the first for all."""
    (T, N, D), device = x_TND.shape, y_TN.device
    up = 4 * -(-N // 4)
    like: dict[str, Any] = {"dtype": torch.float64, "device": device}
    x_DNT, y_NT = torch.empty(D, up, T, **like) if own else torch.zeros(D, up, 1, **like), torch.empty(up, T, **like)
    mask_TN = torch.empty(T, N, dtype=torch.uint8, device=device)
    noise_TN = torch.empty(T, N, **like) if known_TN is not None else torch.zeros((), **like).expand(T, N)
    units = Units(torch.empty(T, D, **like), torch.empty(T, D, **like), torch.empty(T, **like), torch.empty(T, **like))
    flag_T = torch.empty(T, dtype=torch.int64, device=device)
    given_TN = y_TN if known_TN is None else known_TN
    NB, run = max(16, triton.next_power_of_2(N)), _standardize
    S = max(1, _NUMBERS // NB)
    run[(-(-T // S),)](
        x_TND, y_TN, given_TN, x_DNT, y_NT, mask_TN, noise_TN, units.x_offset_TD, units.x_scale_TD, units.y_offset_T,
        units.y_scale_T, flag_T, T, N, up, *x_TND.stride(), *y_TN.stride(), *given_TN.stride(), int(TaskStatus.FLAT),
        int(TaskStatus.FEW), int(TaskStatus.EMPTY), int(TaskStatus.INVALID), D=D, Q=coefficients(mean, D),
        KNOWN=known_TN is not None,
        CENTERED=mean != "zero", EACH=kernel.scales_each, SHIFTED=kernel.shifts, OWN=own, NB=NB, S=S,
        num_warps=4,
    )  # fmt: skip
    if not own:
        x_DNT[:, :N] = units.select(slice(1)).inputs(x_TND[:1].double()).permute(2, 1, 0)
    x_TND = x_DNT.permute(2, 1, 0)[:, :N].expand(T, -1, -1)
    tasks = TaskBatch(x_TND, y_NT.mT[:, :N], mask_TN.view(torch.bool), noise_TN, mean)
    return tasks, units, flag_T
