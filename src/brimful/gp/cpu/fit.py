"""Fitting on the CPU, compiled: the initial values are scored, then tasks descend from the best of them, four at a
time, one in each SIMD lane; the tasks are distributed over the threads.

The twin of `scoring.fit`, where the method is explained; a test holds the two together.
"""

import threading
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numba import types
from torch import Tensor

from ...core.base.compilers.second_process import second_process
from ..model import periods
from ..model.kernels import Kernel
from ..model.priors import Limits
from ..model.tasks import TaskBatch
from ..optimize import initialization, matrices, scoring, subsets, wave_search
from . import scores
from .arrays import arrays_of, factors_of, settings_of, to_array
from .borrowed import Layout
from .descent import STATES, descend, make_states
from .evaluation import COVARIANCE, EVALUATION, make_workspace
from .layouts import RESULTS, SETTINGS, TASKS, ResultArrays, Settings, TaskArrays
from .simd_lanes import WIDTH, entry_point
from .workspace import WORKSPACE

_WHOLE = 64  # points of a task up to which the initial values are scored with all of them
_SHARE = 256  # tasks that a thread takes at a time, at the most: handing them over takes as long as fitting a few

_compiling = threading.Lock()


_Share = namedtuple("_Share", "tasks starts counts")
"""Tasks to fit, where they start, and from how many of those."""

_SHARE_LAYOUT = Layout(_Share, "i1 f3 i1")
_share_at, _tasks_at, _settings_at, _results_at = _SHARE_LAYOUT.at, TASKS.at, SETTINGS.at, RESULTS.at
_workspace_at, _states_at = WORKSPACE.at, STATES.at
_SIGNATURE = types.none(*[types.int64] * 6)


@entry_point()
def _descend(share, tasks, settings, results, workspace, states):
    own = _share_at(share)
    descend(
        _workspace_at(workspace), _states_at(states), own.tasks, _tasks_at(tasks), _settings_at(settings), own.starts,
        own.counts, _results_at(results),
    )  # fmt: skip


def _fit_share(share: _Share, tasks: TaskArrays, settings: Settings, results: ResultArrays) -> None:
    """Fits some tasks."""
    (_, N, D), P, Q = tasks.x.shape, results.theta.shape[1], tasks.H.shape[2]
    lent = (
        _SHARE_LAYOUT.lend(share), TASKS.lend(tasks), SETTINGS.lend(settings), RESULTS.lend(results),
        make_workspace(N, D, P, Q, settings.factors), make_states(P, Q),
    )  # fmt: skip
    _descend(*(one.address for one in lent))


def _compile(scored: bool) -> None:
    """Compiles what fits; with what scores initial values, if `scored`. A second process compiles the likelihood."""
    loops = [(_descend, _SIGNATURE), *([(scores.score, scores.SIGNATURE)] if scored else [])]
    with _compiling:
        if all(signature.args in loop.overloads for loop, signature in loops):
            return
        if EVALUATION.is_missing():
            other = scores.compile_with_likelihood if scored else scores.compile_likelihood
            with second_process(scores.__name__, other.__name__) as wait:
                _descend.compile(_SIGNATURE)
                _ = COVARIANCE.address
                wait()
        _ = EVALUATION.address, COVARIANCE.address
        for loop, signature in loops:
            loop.compile(signature)


def fit(
    kernel: Kernel,
    tasks: TaskBatch,
    limits: Limits,
    options: scoring.ScoringOptions,
    starts: initialization.Starts | None = None,
) -> scoring.Optima:
    """What `scoring.fit` does, compiled; on the CPU, in float64."""
    T, P = limits.low_TP.shape
    arrays = arrays_of(tasks, limits)
    results = ResultArrays(
        np.full((T, P), initialization.NO_NOISE), np.full(T, np.inf), np.zeros(T, np.int64), np.full(T, np.inf),
        np.zeros(T, np.int64), np.zeros((T, tasks.coefficients)),
    )  # fmt: skip
    _compile(scored=starts is None)
    settings = settings_of(kernel, limits, options)
    threads, count_T = torch.get_num_threads(), arrays.mask.sum(1)
    with ThreadPoolExecutor(threads) as pool:

        def descend(starts: initialization.Starts) -> None:
            starts_TSP, starts_T = to_array(starts[0]), starts[1].numpy().astype(np.int64)
            shares = [_Share(index, starts_TSP[index], starts_T[index]) for index in _shares(count_T, threads)]
            list(pool.map(lambda share: _fit_share(share, arrays, settings, results), shares))

        descend(starts or _starts(kernel, tasks, limits, options.starts, pool))
        if starts is None and kernel.periods:
            theta_TP, nlml_T = torch.from_numpy(results.theta), torch.from_numpy(results.nlml)
            scored = _scored(kernel, tasks, limits, pool)
            descend(wave_search.beside(kernel, limits, theta_TP, nlml_T, options.starts, scored))
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


def _run(segments: scores.Segments, arrays: TaskArrays, bounded: scores.Bounded, pool: Any) -> None:
    shares = _shares(arrays.mask.sum(1)[segments.task], torch.get_num_threads())
    list(pool.map(lambda share: scores.evaluate_segments(share, arrays, segments, bounded), shares))


def _segments(index_L: Tensor, theta_LP: Tensor) -> scores.Segments:
    """Segments of evaluations of one task each, of tasks by their index."""
    task, count = torch.unique_consecutive(index_L.long(), return_counts=True)
    stop = count.cumsum(0)
    theta = np.array(theta_LP.detach().numpy(), order="C")
    return scores.Segments(task.numpy(), (stop - count).numpy(), stop.numpy(), theta, np.empty((len(theta), 2)))


def _score(kernel: Kernel, arrays: TaskArrays, limits: Limits, pool: Any) -> initialization.Score:
    """The likelihood of tasks, compiled."""
    plain = _bounded(kernel, limits, False)

    def score(index_L: Tensor, theta_LP: Tensor) -> tuple[Tensor, Tensor]:
        segments = _segments(index_L, theta_LP)
        _run(segments, arrays, plain, pool)
        nlml_L, quadratic_L = torch.from_numpy(segments.value).unbind(1)
        return nlml_L, quadratic_L

    return score


def _scored(kernel: Kernel, tasks: TaskBatch, limits: Limits, pool: Any) -> initialization.Scored:
    """`initialization.scored_by` of all points, compiled."""
    arrays, bounded = arrays_of(tasks, limits), _bounded(kernel, limits, True)
    score = _score(kernel, arrays, limits, pool)

    def scored(index_L: Tensor, theta_LP: Tensor) -> tuple[Tensor, Tensor]:
        segments = _segments(index_L, theta_LP)
        _run(segments, arrays, bounded, pool)
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
    flags = np.ascontiguousarray(fixed), np.ascontiguousarray(scales)
    return scores.Bounded(factors_of(kernel), int(wanted), *flags, to_array(limits.precision_P))


def _shares(points: np.ndarray, threads: int) -> list[np.ndarray]:
    """What threads take at a time, of tasks that have so many points: lanes go in step, best with as many points as
    each other."""
    share = WIDTH * max(1, -(-min(_SHARE, -(-len(points) // (8 * threads))) // WIDTH))
    order = np.argsort(points, kind="stable")
    return [order[first : first + share] for first in range(0, len(points), share)]
