"""Fitting on the CPU, compiled: the initial values are scored, then tasks descend from the best of them, four at a
time, one in each SIMD lane; the tasks are distributed over the threads.

The twin of `scoring.fit`, where the method is explained; a test holds the two together.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..model import periods
from ..model.kernels import Kernel
from ..model.priors import Limits
from ..model.tasks import TaskBatch
from ..optimize import initialization, matrices, scoring, subsets
from . import scores
from .arrays import ResultArrays, TaskArrays, arrays_of, factors_of, settings_of, to_array
from .borrowed import borrow
from .descent import descend, make_states
from .evaluation import evaluation_address, evaluation_compiling
from .likelihood import make_workspace
from .simd_lanes import WIDTH, compiled, entry_point, zeros

_WHOLE = 64  # points of a task up to which the initial values are scored with all of them
_SHARE = 256  # tasks that a thread takes at a time, at the most: handing them over takes as long as fitting a few

_compiling = threading.Lock()


@compiled
def _reset(tasks, results):
    for t in tasks:
        results.nlml[t], results.norm[t], results.iterations[t], results.ending[t] = np.inf, np.inf, 0, 0


@entry_point()
def _descend(tasks, all_tasks, starts, counts, all_settings, all_results):
    """Fits some tasks, from so many of their starts as `counts` says."""
    data, settings, results = borrow(all_tasks), borrow(all_settings), borrow(all_results)
    P, Q = results.theta.shape[1], data.H.shape[2]
    owned = make_workspace(data.x.shape[1], data.x.shape[2], P, Q, settings.factors)
    owned_states = make_states(P, Q)
    begin, used = zeros((len(tasks), starts.shape[1], P), 0.0), zeros((len(tasks),), 0)
    _reset(tasks, results)
    for position in range(len(tasks)):
        used[position] = counts[tasks[position]]
        for attempt in range(starts.shape[1]):
            for p in range(P):
                begin[position, attempt, p] = starts[tasks[position], attempt, p]
    descend(borrow(owned), borrow(owned_states), tasks, data, settings, begin, used, results)
    owned.count[0] = owned_states.task[0] = 0  # in use until here


def _compile(*loops: tuple[Any, tuple[Any, ...]]) -> None:
    """Compiles loops for the types of some arguments, and the likelihood that they call at the same time."""
    kinds = [(loop, tuple(loop.typeof_pyval(one) for one in arguments)) for loop, arguments in loops]
    with _compiling:
        missing = [(loop, signature) for loop, signature in kinds if signature not in loop.overloads]
        if missing:
            with evaluation_compiling() as wait:
                for loop, signature in missing:
                    loop.compile(signature)
                wait()


def fit(
    kernel: Kernel,
    tasks: TaskBatch,
    limits: Limits,
    options: scoring.ScoringOptions,
    starts: initialization.Starts | None = None,
) -> scoring.Optima:
    """What `scoring.fit` does, compiled; on the CPU, in float64."""
    T, P = limits.low_TP.shape
    settings, arrays = settings_of(kernel, limits, options), arrays_of(tasks, limits)
    results = ResultArrays(
        np.full((T, P), initialization.NO_NOISE), np.empty(T), np.empty(T, np.int64), np.empty(T),
        np.empty(T, np.int64), np.zeros((T, tasks.coefficients)),
    )  # fmt: skip
    threads, count_T = torch.get_num_threads(), arrays.mask.sum(1)
    with ThreadPoolExecutor(threads) as pool:
        if starts is None:
            any_starts = np.empty((T, options.starts, P)), np.empty(T, np.int64)
            any_points = scores.segments_of(torch.zeros(1), limits.low_TP[:1]), _bounded(kernel, limits, True)
            _compile(
                (scores.score, (any_points[0].task, arrays, factors_of(kernel), *any_points)),
                (_descend, (count_T, arrays, *any_starts, settings, results)),
            )
            starts = _starts(kernel, tasks, limits, options.starts, pool)
        begin = to_array(starts[0]), np.ascontiguousarray(starts[1].numpy().astype(np.int64))
        shares = _shares(count_T, threads)
        _compile((_descend, (count_T, arrays, *begin, settings, results)))
        settings = settings._replace(evaluation=evaluation_address())
        list(pool.map(lambda share: _descend(share, arrays, *begin, settings, results), shares))
    return scoring.Optima(*(torch.from_numpy(values) for values in results))


def _starts(
    kernel: Kernel, tasks: TaskBatch, limits: Limits, most: int, pool: ThreadPoolExecutor
) -> initialization.Starts:
    """Where to start: from all points of small tasks, and from subsets of the points of large ones, which cost less."""
    large_T = (tasks.mask_TN.sum(1) > _WHOLE) & matrices.serves(kernel, 0)
    starts_TSP = limits.low_TP.new_zeros(len(tasks), most, limits.low_TP.shape[1])
    starts_T = torch.zeros(len(tasks), dtype=torch.int64)
    for index, thinned in ((torch.nonzero(~large_T)[:, 0], False), (torch.nonzero(large_T)[:, 0], True)):
        if len(index) == 0:
            continue
        some, own = (tasks, limits) if len(index) == len(tasks) else (tasks.select(index), limits.select(index))
        scored = _thinned(kernel, some, own, pool) if thinned else _scored(kernel, some, own, pool)
        initial = periods.initial_periods(kernel, some, own)
        begin_TSP, begin_T = initialization.grid_search(kernel, own, most, scored, initial)
        starts_TSP[index, : begin_TSP.shape[1]], starts_T[index] = begin_TSP, begin_T
    return starts_TSP, starts_T


def _run(segments: scores.Segments, kernel: Kernel, arrays: TaskArrays, bounded: scores.Bounded, pool: Any) -> None:
    factors, shares = factors_of(kernel), _shares(arrays.mask.sum(1)[segments.task], torch.get_num_threads())
    _compile((scores.score, (segments.task, arrays, factors, segments, bounded)))
    bounded = bounded._replace(evaluation=evaluation_address())
    list(pool.map(lambda share: scores.score(share, arrays, factors, segments, bounded), shares))


def _score(kernel: Kernel, arrays: TaskArrays, limits: Limits, pool: Any) -> initialization.Score:
    """The likelihood of tasks, compiled."""
    plain = _bounded(kernel, limits, False)

    def score(index_L: Tensor, theta_LP: Tensor) -> tuple[Tensor, Tensor]:
        segments = scores.segments_of(index_L, theta_LP)
        _run(segments, kernel, arrays, plain, pool)
        nlml_L, quadratic_L = torch.from_numpy(segments.value).unbind(1)
        return nlml_L, quadratic_L

    return score


def _scored(kernel: Kernel, tasks: TaskBatch, limits: Limits, pool: Any) -> initialization.Scored:
    """`initialization.scored_by` of all points, compiled."""
    arrays, bounded = arrays_of(tasks, limits), _bounded(kernel, limits, True)
    score = _score(kernel, arrays, limits, pool)

    def scored(index_L: Tensor, theta_LP: Tensor) -> tuple[Tensor, Tensor]:
        segments = scores.segments_of(index_L, theta_LP)
        _run(segments, kernel, arrays, bounded, pool)
        moved_LP, (score_L, stopped_L) = torch.from_numpy(segments.theta), torch.from_numpy(segments.value).unbind(1)
        stopped = torch.nonzero(stopped_L)[:, 0]
        if len(stopped):  # a bound was in the way of the best factor
            index, theta = index_L[stopped], moved_LP[stopped]
            score_L[stopped] = score(index, theta)[0] + limits.select(index).prior_penalty(theta)
        return moved_LP, score_L

    return scored


def _thinned(kernel: Kernel, tasks: TaskBatch, limits: Limits, pool: Any) -> initialization.Scored:
    """The same of subsets of the points, one after the other."""
    parts = subsets.subsets(tasks)
    count_T = subsets.summed(parts.mask_TN.sum(1).double())
    score = _score(kernel, arrays_of(parts, limits), limits, pool)

    def total(index_L: Tensor, theta_LP: Tensor) -> tuple[Tensor, Tensor]:
        every = [score(index_L * subsets.COUNT + part, theta_LP) for part in range(subsets.COUNT)]
        nlml_L, quadratic_L = (torch.stack(values).sum(0) for values in zip(*every, strict=True))
        return nlml_L, quadratic_L

    return initialization.scored_by(kernel, limits, count_T, total)


def _bounded(kernel: Kernel, limits: Limits, wanted: bool) -> scores.Bounded:
    fixed, scales = limits.fixed_P.numpy(), initialization.scales_all(kernel, limits).numpy()
    return scores.Bounded(0, wanted, np.ascontiguousarray(fixed), scales, to_array(limits.precision_P))


def _shares(points: np.ndarray, threads: int) -> list[np.ndarray]:
    """What threads take at a time, of tasks that have so many points: lanes go in step, best with as many points as
    each other."""
    share = WIDTH * max(1, -(-min(_SHARE, -(-len(points) // (8 * threads))) // WIDTH))
    order = np.argsort(points, kind="stable")
    return [order[first : first + share] for first in range(0, len(points), share)]
