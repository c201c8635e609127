"""Fitting on the CPU, compiled: a grid search, then a descent from the local minima that it found, four tasks at a
time, one in each SIMD lane; the tasks are distributed over the threads.

The twin of `scoring.fit`, where the method is explained; a test holds the two together.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from ..model.kernels import Kernel
from ..model.priors import Limits
from ..model.tasks import TaskBatch
from ..optimize import scoring
from .arrays import ResultArrays, arrays_of, settings_of, to_array
from .borrowed import borrow
from .descent import descend, make_states
from .evaluation import evaluation_address, evaluation_compiling
from .grid_search import grid_search
from .likelihood import make_workspace
from .simd_lanes import WIDTH, compiled, entry_point, smaller, zeros

_SHARE = 256  # tasks that a thread takes at a time, at the most: handing them over takes as long as fitting a few

_compiling = threading.Lock()


@compiled
def _reset(tasks, results):
    for t in tasks:
        results.nlml[t], results.norm[t], results.iterations[t], results.ending[t] = np.inf, np.inf, 0, 0


# Two functions, so that a call compiles only what it needs.


@entry_point()
def _fit_from_starts(tasks, all_tasks, starts, counts, all_settings, all_results):
    """Fits some tasks, from so many of their starts as `counts` says."""
    data, settings, results = borrow(all_tasks), borrow(all_settings), borrow(all_results)
    P, Q = results.theta.shape[1], data.H.shape[2]
    owned = make_workspace(data.x.shape[1], data.x.shape[2], P, Q, len(settings.factors))
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


@entry_point()
def _fit_from_grid(tasks, all_tasks, all_settings, all_results):
    """Fits some tasks, from the local minima of the grid."""
    data, settings, results = borrow(all_tasks), borrow(all_settings), borrow(all_results)
    P, Q = results.theta.shape[1], data.H.shape[2]
    owned = make_workspace(data.x.shape[1], data.x.shape[2], P, Q, len(settings.factors))
    owned_states = make_states(P, Q)
    workspace = borrow(owned)
    begin, used = zeros((len(tasks), settings.starts, P), 0.0), zeros((len(tasks),), 0)
    _reset(tasks, results)
    for first in range(0, len(tasks), WIDTH):
        stop = smaller(len(tasks), first + WIDTH)
        grid_search(workspace, tasks[first:stop], data, settings, results.theta, begin[first:stop], used[first:stop])
    descend(workspace, borrow(owned_states), tasks, data, settings, begin, used, results)
    owned.count[0] = owned_states.task[0] = 0  # in use until here


def _compile(loop: Any, *arguments: Any) -> None:
    """Compiles a loop for the types of some arguments, and the likelihood that it calls at the same time."""
    kinds = tuple(loop.typeof_pyval(one) for one in arguments)
    with _compiling:
        if kinds not in loop.overloads:
            with evaluation_compiling() as wait:
                loop.compile(kinds)
                wait()


def fit(
    kernel: Kernel,
    tasks: TaskBatch,
    limits: Limits,
    options: scoring.ScoringOptions,
    starts: scoring.Starts | None = None,
) -> scoring.Optima:
    """What `scoring.fit` does, compiled; on the CPU, in float64."""
    T, P = limits.low_TP.shape
    settings, arrays = settings_of(kernel, limits, options), arrays_of(kernel, tasks, limits, starts is None)
    results = ResultArrays(
        np.full((T, P), scoring.NO_NOISE), np.empty(T), np.empty(T, np.int64), np.empty(T), np.empty(T, np.int64),
        np.zeros((T, tasks.coefficients)),
    )  # fmt: skip
    begin = () if starts is None else (to_array(starts[0]), np.ascontiguousarray(starts[1].numpy().astype(np.int64)))
    fit_tasks = _fit_from_grid if starts is None else _fit_from_starts
    order = np.argsort(arrays.mask.sum(1), kind="stable")  # lanes go in step: best with as many points as each other
    threads = torch.get_num_threads()
    share = WIDTH * max(1, -(-min(_SHARE, -(-T // (8 * threads))) // WIDTH))

    _compile(fit_tasks, order[:share], arrays, *begin, settings, results)
    settings = settings._replace(evaluation=evaluation_address())

    def fit_share(first: int) -> None:
        fit_tasks(order[first : first + share], arrays, *begin, settings, results)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fit_share, range(0, T, share)))
    return scoring.Optima(*(torch.from_numpy(values) for values in results))
