"""The profile over the lengthscale, refined by Triton kernels: one lane per task, and a list of points to evaluate.

The twin of `initialization.profile_minima`, where the method is explained. Between two evaluations of a list one kernel
decides for every task where its profile is wanted next, and appends those points to the list; what torch does in a
hundred small operations takes a few launches per round. Where a list has which task is not the same in every run; what
is evaluated for a task depends on that task alone.

Legend: T tasks, P parameters, U lengthscales and N noises of the grid, L points of a list, S starts. `places` are
positions along the lengthscale: those of the grid, with room for all that may come between them; the value of a place
that has none yet is NaN.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..optimize.initialization import BEYOND, CORRECTED, NEAR_BY, WINDOWS, WORTH

_TASKS, _WIDTH = 32, 256  # of a program: tasks, and points of a list
ScoreList = Callable[[Tensor, Tensor], Tensor]
"""From an index of tasks and their parameters, inside the bounds: the scores at the best common factors, to which the
parameters are moved."""


@triton.jit
def _between(grid, u, along, level, p, U: tl.constexpr, N: tl.constexpr, P: tl.constexpr):
    """One parameter between points of the grid, whose axes add: so far along from lengthscale u to the next."""
    under = tl.minimum(tl.maximum(level.to(tl.int32), 0), N - 2)
    first = tl.load(grid + u * N * P + p)
    value = first + along * (tl.load(grid + (u + 1) * N * P + p) - first)
    low, high = tl.load(grid + under * P + p), tl.load(grid + (under + 1) * P + p)
    return value + low - tl.load(grid + p) + (high - low) * (level - under)


@triton.jit
def _add(
    wanted, place, level, grid, low, high, fixed, out_theta, out_index, out_place, at, task, t, T,
    F: tl.constexpr, U: tl.constexpr, N: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """Writes a place to the list, where it is wanted; the position of the next."""
    if tl.max(wanted.to(tl.int32), axis=0) > 0:
        u = tl.minimum(place // F, U - 2)
        along = (place - u * F).to(tl.float64) / F
        for p in tl.static_range(P):
            value = _between(grid, u, along, level, p, U, N, P)
            least = tl.load(low + task * P + p, mask=wanted, other=0.0)
            most = tl.load(high + task * P + p, mask=wanted, other=0.0)
            bounded = tl.minimum(tl.maximum(value, least), most)
            tl.store(out_theta + at * P + p, tl.where(tl.load(fixed + p) != 0, value, bounded), mask=wanted)
        tl.store(out_index + at, task.to(tl.int32), mask=wanted)
        tl.store(out_place + at, place * T + t, mask=wanted)
    return at + wanted.to(tl.int64)


@triton.jit
def _reserve(number, count):
    """Room in the list for what each lane has: where it begins."""
    through = tl.cumsum(number, axis=0)
    begin = tl.atomic_add(count, tl.sum(number, axis=0))
    return (begin + through - number).to(tl.int64)


@triton.jit(do_not_specialize=["first", "T"])
def _begin(
    score, theta, grid, low, high, fixed, value, level, kept, lowest, nearest, out_theta, out_index, out_place, count,
    first, T, WINDOW: tl.constexpr, BEYOND: tl.constexpr,
    F: tl.constexpr, U: tl.constexpr, N: tl.constexpr, P: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    """The profile at the lengthscales of the grid, by parabolas along the noises, and where to evaluate it: there, and
    halfway to the next, where it is within a window of the least."""
    t = tl.program_id(0).to(tl.int64) * S + tl.arange(0, S)
    here = t < T
    task = first + t
    least = tl.full([S], float("inf"), tl.float64)
    for u in range(U):
        best, where = tl.full([S], float("inf"), tl.float64), tl.zeros([S], tl.int32)
        for n in range(N):
            here_score = tl.load(score + (n * U + u) * T + t, mask=here, other=float("inf"))
            where = tl.where(here_score < best, n, where)
            best = tl.minimum(best, here_score)
        middle = tl.minimum(tl.maximum(where, 1), N - 2)
        before = tl.load(score + ((middle - 1) * U + u) * T + t, mask=here, other=float("inf"))
        center = tl.load(score + (middle * U + u) * T + t, mask=here, other=float("inf"))
        after = tl.load(score + ((middle + 1) * U + u) * T + t, mask=here, other=float("inf"))
        finite = (tl.abs(before) < float("inf")) & (tl.abs(center) < float("inf")) & (tl.abs(after) < float("inf"))
        before, center, after = (
            tl.where(finite, before, 0.0),
            tl.where(finite, center, 0.0),
            tl.where(finite, after, 0.0),
        )
        curvature = before - 2.0 * center + after
        side = tl.where(before > after, 1.0, tl.where(before < after, -1.0, 0.0))
        bent = curvature > 1e-9
        off = tl.where(bent, (before - after) / tl.where(bent, 2.0 * curvature, 1.0), side)
        off = tl.minimum(tl.maximum(off, -1.0 - BEYOND), 1.0 + BEYOND)
        between = center + 0.5 * off * (after - before) + 0.5 * off * off * curvature
        estimate = tl.where(finite, between, best)
        least = tl.minimum(least, estimate)
        tl.store(value + F * u * T + t, estimate, mask=here)
        tl.store(level + F * u * T + t, tl.where(finite, middle + off, where.to(tl.float64)), mask=here)
        tl.store(lowest + u * T + t, best, mask=here)
        tl.store(nearest + u * T + t, where, mask=here)
        for p in tl.static_range(P):
            chosen = tl.load(theta + ((where * U + u) * T + t) * P + p, mask=here, other=0.0)
            tl.store(kept + (F * u * P + p) * T + t, chosen, mask=here)
    number, wanted_before = tl.zeros([S], tl.int32), t < 0
    for u in range(U):
        wanted = here & (tl.load(value + F * u * T + t, mask=here, other=float("inf")) < least + WINDOW)
        number += wanted.to(tl.int32)
        if u > 0:
            number += (wanted | wanted_before).to(tl.int32)
        wanted_before = wanted
    at = _reserve(number, count)
    wanted_before = t < 0
    level_before = tl.zeros([S], tl.float64)
    for u in range(U):
        wanted = here & (tl.load(value + F * u * T + t, mask=here, other=float("inf")) < least + WINDOW)
        own = tl.load(level + F * u * T + t, mask=here, other=0.0)
        place = tl.full([S], 0, tl.int64) + F * u
        at = _add(wanted, place, own, grid, low, high, fixed, out_theta, out_index, out_place, at, task, t, T,
                  F, U, N, P)  # fmt: skip
        if u > 0:
            halfway = 0.5 * (level_before + own)
            beside = wanted | wanted_before
            tl.store(level + (F * u - F // 2) * T + t, halfway, mask=beside)
            at = _add(beside, place - F // 2, halfway, grid, low, high, fixed, out_theta, out_index, out_place, at,
                      task, t, T, F, U, N, P)  # fmt: skip
        wanted_before, level_before = wanted, own


@triton.jit(do_not_specialize=["T", "L"])
def _absorb(
    score, theta, place, lowest, nearest, value, level, kept, T, L,
    GRID: tl.constexpr, F: tl.constexpr, P: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """What was evaluated of a list, to its places; with `GRID`, at lengthscales of the grid only where it is better
    than the best of the grid itself."""
    slot = tl.program_id(0).to(tl.int64) * W + tl.arange(0, W)
    here = slot < L
    to = tl.load(place + slot, mask=here, other=0)
    own = tl.load(score + slot, mask=here, other=0.0)
    takes = here
    if GRID:
        u, t = to // T // F, to % T
        on_grid = here & (to // T % F == 0)
        best = tl.load(lowest + u * T + t, mask=on_grid, other=float("inf"))
        takes = here & (~on_grid | (own < best))
        own = tl.minimum(own, best)
        level_there = tl.load(nearest + u * T + t, mask=on_grid, other=0).to(tl.float64)
        tl.store(level + to, level_there, mask=here & ~takes)
    tl.store(value + to, own, mask=here)
    for p in tl.static_range(P):
        moved = tl.load(theta + slot * P + p, mask=takes, other=0.0)
        tl.store(kept + (to // T * P + p) * T + to % T, moved, mask=takes)


@triton.jit
def _least(value, t, here, T, H: tl.constexpr, S: tl.constexpr):
    """The lowest value of every task."""
    least = tl.full([S], float("inf"), tl.float64)
    for h in range(H):
        own = tl.load(value + h * T + t, mask=here, other=float("inf"))
        least = tl.minimum(least, tl.where(own == own, own, float("inf")))
    return least


@triton.jit(do_not_specialize=["first", "T"])
def _around(
    grid, low, high, fixed, value, level, out_theta, out_index, out_place, count, first, T,
    WINDOW: tl.constexpr, NEAR_BY: tl.constexpr, H: tl.constexpr, F: tl.constexpr, U: tl.constexpr, N: tl.constexpr,
    P: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    """Two more noises, one below and one above, of every place within a window of the least: side by side."""
    t = tl.program_id(0).to(tl.int64) * S + tl.arange(0, S)
    here = t < T
    task = first + t
    bar = _least(value, t, here, T, H, S) + WINDOW
    number = tl.zeros([S], tl.int32)
    for h in range(H):
        own = tl.load(value + h * T + t, mask=here, other=float("inf"))
        number += 2 * (here & (own < bar)).to(tl.int32)
    at = _reserve(number, count)
    for h in range(H):
        wanted = here & (tl.load(value + h * T + t, mask=here, other=float("inf")) < bar)
        own_level, place = tl.load(level + h * T + t, mask=here, other=0.0), tl.zeros([S], tl.int64) + h
        at = _add(wanted, place, own_level - NEAR_BY, grid, low, high, fixed, out_theta, out_index, out_place, at,
                  task, t, T, F, U, N, P)  # fmt: skip
        at = _add(wanted, place, own_level + NEAR_BY, grid, low, high, fixed, out_theta, out_index, out_place, at,
                  task, t, T, F, U, N, P)  # fmt: skip


@triton.jit(do_not_specialize=["T", "L"])
def _correct(
    score, theta, place, value, level, kept, T, L, NEAR_BY: tl.constexpr, P: tl.constexpr, W: tl.constexpr
):  # fmt: skip
    """The lowest of the parabola through three noises: those of a place, and two from the list side by side."""
    pair = tl.program_id(0).to(tl.int64) * W + tl.arange(0, W)
    here = 2 * pair < L
    to = tl.load(place + 2 * pair, mask=here, other=0)
    center = tl.load(value + to, mask=here, other=0.0)
    below = tl.load(score + 2 * pair, mask=here, other=0.0)
    above = tl.load(score + 2 * pair + 1, mask=here, other=0.0)
    known = here & (tl.abs(below) < float("inf")) & (tl.abs(above) < float("inf"))
    below, above = tl.where(known, below, center), tl.where(known, above, center)
    curvature = below - 2.0 * center + above
    side = tl.where(below > above, 1.0, tl.where(below < above, -1.0, 0.0))
    bent = curvature > 1e-9
    off = tl.where(bent, (below - above) / tl.where(bent, 2.0 * curvature, 1.0), side)
    off = tl.minimum(tl.maximum(off, -2.0), 2.0)
    other = tl.minimum(below, above)
    least = tl.minimum(center, other)
    inner = center + 0.5 * off * (above - below) + 0.5 * off * off * curvature
    tl.store(value + to, tl.where(tl.abs(off) <= 1.0, tl.minimum(inner, least), least), mask=known)
    tl.store(level + to, tl.load(level + to, mask=known, other=0.0) + NEAR_BY * off, mask=known)
    source, takes = 2 * pair + tl.where(below <= above, 0, 1), known & (other < center)
    for p in tl.static_range(P):
        moved = tl.load(theta + source * P + p, mask=takes, other=0.0)
        tl.store(kept + (to // T * P + p) * T + to % T, moved, mask=takes)


@triton.jit(do_not_specialize=["first", "T"])
def _halve(
    grid, low, high, fixed, value, level, out_theta, out_index, out_place, count, first, T,
    WINDOW: tl.constexpr, H: tl.constexpr, F: tl.constexpr, U: tl.constexpr, N: tl.constexpr, P: tl.constexpr,
    S: tl.constexpr,
):  # fmt: skip
    """Where to evaluate the profile next: between neighbors of which one is within a window of the least."""
    t = tl.program_id(0).to(tl.int64) * S + tl.arange(0, S)
    here = t < T
    task = first + t
    bar = _least(value, t, here, T, H, S) + WINDOW
    number = tl.zeros([S], tl.int32)
    last = tl.full([S], float("inf"), tl.float64)
    for h in range(H):
        own = tl.load(value + h * T + t, mask=here, other=float("inf"))
        there = own == own
        if h > 0:
            number += (here & there & (tl.minimum(own, last) < bar)).to(tl.int32)
        last = tl.where(there, own, last)
    at = _reserve(number, count)
    last = tl.full([S], float("inf"), tl.float64)
    last_level, last_place = tl.zeros([S], tl.float64), tl.zeros([S], tl.int64)
    for h in range(H):
        own = tl.load(value + h * T + t, mask=here, other=float("inf"))
        own_level = tl.load(level + h * T + t, mask=here, other=0.0)
        there = own == own
        if h > 0:
            wanted = here & there & (tl.minimum(own, last) < bar)
            halfway, place = 0.5 * (last_level + own_level), (last_place + h) // 2
            tl.store(level + place * T + t, halfway, mask=wanted)
            at = _add(wanted, place, halfway, grid, low, high, fixed, out_theta, out_index, out_place, at, task, t, T,
                      F, U, N, P)  # fmt: skip
        last, last_level = tl.where(there, own, last), tl.where(there, own_level, last_level)
        last_place = tl.where(there, h, last_place)


@triton.jit(do_not_specialize=["first", "T"])
def _choose(
    value, kept, starts, counts, first, T,
    WORTH: tl.constexpr, H: tl.constexpr, P: tl.constexpr, STARTS: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    """The local minima of the profile, best first, and how many of them are worth a descent."""
    t = tl.program_id(0).to(tl.int64) * S + tl.arange(0, S)
    here = t < T
    infinite = tl.full([S], float("inf"), tl.float64)
    least, done_value, done_place, number = infinite, -infinite, tl.zeros([S], tl.int64) - 1, tl.zeros([S], tl.int32)
    for s in range(STARTS):
        best, best_place = infinite, tl.zeros([S], tl.int64)
        # The place before is a minimum if it is lower than that before it, and not higher than this one.
        last, last_place, falls = infinite, tl.zeros([S], tl.int64), t < 0
        for h in range(H + 1):
            own = tl.load(value + h * T + t, mask=here & (h < H), other=float("inf"))
            there = own == own
            later = (last > done_value) | ((last == done_value) & (last_place > done_place))
            takes = there & falls & (last <= own) & later & (last < best)
            best, best_place = tl.where(takes, last, best), tl.where(takes, last_place, best_place)
            falls = tl.where(there, own < last, falls)
            last, last_place = tl.where(there, own, last), tl.where(there, h, last_place)
        if s == 0:
            least = best
        worth = (best <= least + WORTH) & (best < float("inf"))
        number += worth.to(tl.int32)
        done_value, done_place = best, best_place
        for p in tl.static_range(P):
            chosen = tl.load(kept + (best_place * P + p) * T + t, mask=here, other=0.0)
            tl.store(starts + ((first + t) * STARTS + s) * P + p, chosen, mask=here)
    tl.store(counts + first + t, number, mask=here)


def refine(
    theta_LP: Tensor, score_L: Tensor, grid_UNP: Tensor, bounds: tuple[Tensor, Tensor, Tensor], first: int, T: int,
    score: ScoreList, starts_TSP: Tensor, count_T: Tensor,
) -> None:  # fmt: skip
    """Writes where tasks start, from `first` on, and how many of their starts to use.

    Args:
        theta_LP, score_L: of T tasks, where the points of the grid came to and the scores there: of N noises by U
            lengthscales by tasks.
        grid_UNP: the grid.
        bounds: those of all tasks, lower and upper, and which parameters are fixed.
    """
    (U, N, P), device = grid_UNP.shape, theta_LP.device
    F = 2 ** len(WINDOWS)
    H, programs, most = F * (U - 1) + 1, -(-T // _TASKS), max(2 * (2 * U - 1), F // 2 * (U - 1)) * T
    like: dict[str, Any] = {"dtype": torch.float64, "device": device}
    value_HT, level_HT = torch.full((H, T), torch.nan, **like), torch.zeros(H, T, **like)
    kept_HPT, lowest_UT = torch.empty(H, P, T, **like), torch.empty(U, T, **like)
    nearest_UT = torch.empty(U, T, dtype=torch.int32, device=device)
    listed_LP, place_L = torch.empty(most, P, **like), torch.empty(most, dtype=torch.int64, device=device)
    index_L = torch.empty(most, dtype=torch.int32, device=device)
    counts = torch.zeros(1 + len(WINDOWS), dtype=torch.int32, device=device)
    grid, steps = (grid_UNP, *bounds), {"F": F, "U": U, "N": N, "P": P, "S": _TASKS, "num_warps": 1}
    listed, places = (listed_LP, index_L, place_L), (value_HT, level_HT, kept_HPT)

    def scored(count: Tensor) -> tuple[int, tuple[Tensor, ...]]:
        """How long the list is; the scores of what is on it, where it came to, and its places."""
        L = int(count)
        return L, (score(index_L[:L], listed_LP[:L]), listed_LP, place_L) if L else ()

    first_count, around_count, *halved = counts.split(1)
    _begin[(programs,)](
        score_L, theta_LP, *grid, *places, lowest_UT, nearest_UT, *listed, first_count, first, T, WINDOW=WINDOWS[0],
        BEYOND=BEYOND, **steps,
    )  # fmt: skip
    L, found = scored(first_count)
    if L:
        _absorb[(-(-L // _WIDTH),)](*found, lowest_UT, nearest_UT, *places, T, L, GRID=True, F=F, P=P, W=_WIDTH)
        _around[(programs,)](
            *grid, value_HT, level_HT, *listed, around_count, first, T, WINDOW=CORRECTED, NEAR_BY=NEAR_BY, H=H, **steps
        )  # fmt: skip
        L, found = scored(around_count)
    if L:
        _correct[(-(-L // (2 * _WIDTH)),)](*found, *places, T, L, NEAR_BY=NEAR_BY, P=P, W=_WIDTH)
    for count, window in zip(halved, WINDOWS[1:], strict=True):
        _halve[(programs,)](*grid, value_HT, level_HT, *listed, count, first, T, WINDOW=window, H=H, **steps)
        L, found = scored(count)
        if L:
            _absorb[(-(-L // _WIDTH),)](*found, lowest_UT, nearest_UT, *places, T, L, GRID=False, F=F, P=P, W=_WIDTH)
    _choose[(programs,)](
        value_HT, kept_HPT, starts_TSP, count_T, first, T, WORTH=WORTH, H=H, P=P, STARTS=starts_TSP.shape[1], S=_TASKS,
        num_warps=1,
    )  # fmt: skip
