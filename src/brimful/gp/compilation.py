"""What a fit compiles, compiled ahead of it: the loops of a CPU, or the kernels of a GPU, all at the same time.

Kernels are compiled when they are first launched, and a fit launches one after the other. Here each is launched on a
few made-up tasks by a thread of its own; the compiler lets other threads run meanwhile, so all of them take as long as
the slowest. What a later fit needs beyond these is compiled then.
"""

import contextlib
import functools
import importlib
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..core.base.compilers import activity
from ..core.memory import devices
from ..core.memory.devices import DeviceLike
from .batch_functions import GPModel, fit_batch, has_kernels, limits_of
from .data.sources import GPData
from .model.kernels import CustomKernel, Kernel
from .model.priors import Limits
from .model.tasks import TaskBatch, standardize
from .optimize import eigenbasis, subsets
from .optimize.initialization import grid, has_profile

_TASKS = 16  # that kernels are launched on: as many as sizes of batches are usually multiples of
_launched = set[Any]()
_lock, _hashing = threading.Lock(), threading.Lock()

Launch = Callable[[], Any]


def compilation(model: GPModel, device: torch.device, data: GPData) -> Callable[[], None] | None:
    """Compiles what fits such tasks, or loads what was compiled; None where nothing is."""
    if isinstance(model.kernel, CustomKernel) or data.tasks == 0:
        return None
    backend = model.backend(device, data.points)
    if backend == "native":
        importlib.import_module("numba")  # so that it can be watched from the start
        return functools.partial(_fit_small, model, model.kernel.dimensions)
    if backend in ("fused", "matrices") and has_kernels(device):
        importlib.import_module("triton")
        return functools.partial(_compile_kernels, model, device, data)
    return None


def _fit_small(model: GPModel, dimensions: int) -> None:
    N = 4 if model.shared is None else len(model.shared)
    x_1ND = torch.linspace(0, 1, N, dtype=torch.float64)[None, :, None].expand(1, N, dimensions)
    y_1N = torch.sin(9 * x_1ND[:, :, 0])
    fit_batch({"x": x_1ND, "y": y_1N} | ({"noise": torch.ones_like(y_1N)} if model.known else {}), model=model)


def _compile_kernels(model: GPModel, device: torch.device, data: GPData) -> None:
    """Once in a process for each set of kernels."""
    backend, dtypes = model.backend(device, data.points), types_of(data)
    wide = -(-data.points // 4) if backend == "fused" else data.points
    key = (device, backend, model.kernel, model.mean, model.known, model.eigenbasis, model.options, wide,
           str(model.priors), *dtypes.items())  # fmt: skip
    with _lock:
        if key in _launched:
            return
        _launched.add(key)
    try:
        launches = kernel_launches(model, device, data.points, dtypes)
        _hash_sources()
        _launch_all(launches, device)
    except BaseException:
        with _lock:
            _launched.discard(key)
        raise
    devices.release_cache(device)


def _launch_all(launches: list[Launch], device: torch.device) -> None:
    """Each on a thread of its own."""
    pool = ThreadPoolExecutor(len(launches))
    try:
        for done in [pool.submit(_launch, launch, device) for launch in launches]:
            # What cannot be compiled here cannot be in the fit, which says so.
            done.exception()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def types_of(data: GPData) -> dict[str, torch.dtype]:
    """What the numbers of tasks are given as."""
    tree: Any = data.items.load(0, 1).tree
    return {name: column.dtype for name, column in tree.items() if isinstance(column, Tensor)}


def begin_early(device: DeviceLike) -> None:
    """Begins, on a thread of its own, what the first kernels would wait for: making the GPU ready, and the hash of the
    compiler. For a run that reads its data meanwhile."""
    if torch.version.cuda is None and torch.version.hip is None:
        return
    with contextlib.suppress(Exception):  # the run itself says what is wrong
        importlib.import_module("triton")  # here: whoever looks for it meanwhile would find a part of it
    threading.Thread(target=_begin, args=(device,), name="brimful-early", daemon=True).start()


def _begin(device: DeviceLike) -> None:
    with contextlib.suppress(Exception):  # the run itself says what is wrong
        first = devices.resolve_all(device)[0]
        if has_kernels(first):
            torch.zeros(1, device=first)
            _hash_compiler()


def _hash_compiler() -> None:
    """Triton keeps kernels under the hash of all its own files, half a second's work: once, not on each thread."""
    with _hashing, contextlib.suppress(ImportError):
        from triton.runtime.cache import triton_key

        triton_key()


def _hash_sources() -> None:
    """Makes the keys under which kernels are kept on disk. Two threads at once can make wrong ones: a key has those of
    the functions that its kernel calls in it, and while one is being made there is another in its place."""
    from triton.runtime import JITFunction

    _hash_compiler()
    package = f"{__package__}.gpu."
    for module in [module for name, module in sys.modules.items() if name.startswith(package)]:
        for value in vars(module).values():
            if isinstance(value, JITFunction):
                _ = value.cache_key


def _launch(launch: Launch, device: torch.device) -> None:
    try:
        with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
            launch()
    finally:
        activity.thread_ends()


def kernel_launches(
    model: GPModel, device: torch.device, points: int, dtypes: Mapping[str, torch.dtype]
) -> list[Launch]:
    """Functions that each launch some of the kernels of a fit, none of which needs the results of another; those that
    take the longest to compile first.

    Args:
        points: of a task.
        dtypes: of its inputs, targets and noise.
    """
    from .gpu import likelihood

    assert isinstance(model.kernel, Kernel)
    kernel, batch = model.kernel, _made_up(model, device, points, dtypes)
    tasks, units, _ = standardize(model.inputs(batch), batch["y"], kernel, model.mean, batch.get("noise"))
    limits = limits_of(model, tasks, units)
    few = tasks if model.backend(device, points) != "matrices" else subsets.subsets(tasks)
    layouts = _Layouts(model, few, limits, tasks)
    launches: list[Launch] = [functools.partial(layouts.evaluate, likelihood, True, False)]
    if few is tasks:
        launches.append(layouts.descend)
        launches.append(functools.partial(layouts.advance, layouts.starts))
    else:  # the subsets descend from one start at a time
        launches += [functools.partial(layouts.advance, starts) for starts in (layouts.starts, 1)]
    if model.eigenbasis:
        launches.append(functools.partial(_search_in_eigenbasis, model, tasks, limits))
    else:
        launches += [functools.partial(layouts.evaluate, likelihood, False, narrow) for narrow in (False, True)]
        launches.append(layouts.search)
    if few is not tasks:
        launches.append(functools.partial(_evaluate_matrices, kernel, tasks, limits))
    return [*launches, functools.partial(model.standardized, batch, for_kernels=True)]


def _made_up(model: GPModel, device: torch.device, points: int, dtypes: Mapping[str, torch.dtype]) -> dict[str, Tensor]:
    """A batch of tasks, as many points each."""
    assert isinstance(model.kernel, Kernel)
    like: dict[str, Any] = {"dtype": torch.float64, "device": device}
    x_N, phase_T = torch.linspace(0, 1, points, **like), torch.linspace(0, 3, _TASKS, **like)
    y_TN = torch.sin(9 * x_N + phase_T[:, None]) + 0.1 * torch.cos(400 * x_N * (1 + phase_T[:, None]))
    batch = {"y": y_TN}
    if model.shared is None:
        batch["x"] = x_N[None, :, None].repeat(_TASKS, 1, model.kernel.dimensions)
    if model.known:
        batch["noise"] = torch.full_like(y_TN, 0.01)
    return {name: value.to(dtypes.get(name, value.dtype)) for name, value in batch.items()}


def _search_in_eigenbasis(model: GPModel, tasks: TaskBatch, limits: Limits) -> None:
    from .gpu import eigenbasis as fused

    assert isinstance(model.kernel, Kernel)
    if fused.serves(tasks.y_TN.shape[1], tasks.coefficients):
        eigenbasis.starts(model.kernel, tasks, limits, model.options.starts, fused.search)


def _evaluate_matrices(kernel: Kernel, tasks: TaskBatch, limits: Limits) -> None:
    from .gpu.matrices import MatrixEvaluator

    first = torch.zeros(1, dtype=torch.int32, device=tasks.y_TN.device)  # of many points, one task takes long enough
    MatrixEvaluator(kernel, tasks).evaluate(first, _middle(kernel, limits)[:1])


def _middle(kernel: Kernel, limits: Limits) -> Tensor:
    """Parameters inside the bounds."""
    grid_GP, _ = grid(kernel, limits)
    middle_TP = grid_GP[len(grid_GP) // 2].to(limits.low_TP).expand_as(limits.low_TP)
    return torch.minimum(torch.maximum(middle_TP, limits.low_TP), limits.high_TP).contiguous()


class _Layouts:
    """The kernels that have a lane for each task, or for each subset of one, launched on data laid out for them.

    Args:
        few: what has a lane.
        tasks: what is fitted.
    """

    def __init__(self, model: GPModel, few: TaskBatch, limits: Limits, tasks: TaskBatch) -> None:
        self._model, self._few, self._limits, self._tasks = model, few, limits, tasks
        assert isinstance(model.kernel, Kernel)
        self._kernel, self._device = model.kernel, tasks.y_TN.device
        wanted = model.options.starts if few is tasks else max(model.options.starts, subsets.STARTS)
        grid_GP, axes = grid(model.kernel, limits)
        most = len(grid_GP) if has_profile(axes) else axes[0] * axes[1]
        self.starts = wanted if model.eigenbasis else min(wanted, most)

    def evaluate(self, likelihood: Any, want: bool, narrow: bool) -> None:
        layout = self._lay_out()
        index_L = torch.arange(len(layout), dtype=torch.int32, device=self._device)
        theta_TP = _middle(self._kernel, self._limits).repeat_interleave(len(layout) // len(self._tasks), 0)
        likelihood.evaluate(self._kernel, layout, index_L, theta_TP, want, narrow)

    def advance(self, starts: int) -> None:
        from .gpu import likelihood, scoring_step
        from .gpu.layout import ActiveTasks

        layout, descent = self._lay_out(), self._begin(1, starts)
        index_L = torch.arange(len(self._tasks), dtype=torch.int32, device=self._device)
        evaluated = likelihood.empty_evaluations(len(index_L), self._limits.low_TP.shape[1], layout, True)
        for part in evaluated:
            part.zero_()
        count_T = self._tasks.mask_TN.sum(1).double()
        active = ActiveTasks.all_of(index_L)
        scoring_step.advance(descent, active, evaluated, self._limits, self._model.options, count_T)

    def descend(self) -> None:
        from .gpu import stragglers

        descent = self._begin(0, self.starts)  # from none of them: nothing is left to do
        active = descent.going(len(self._tasks))
        stragglers.descend(self._kernel, self._lay_out(), descent, active, self._limits, self._model.options)

    def search(self) -> None:
        """The grid search, without the likelihood."""
        from .gpu import grid_search

        def score(index_L: Tensor, theta_LP: Tensor, narrow: bool) -> Tensor:
            far_L = torch.where(index_L % 5 == 0, 1e30, 1.0)  # a bound is in the way, and these are scored again
            return torch.stack([far_L * (2 + theta_LP.cos().mean(1)), 20 * theta_LP.sin().sum(1)], 1)

        points_T = self._tasks.mask_TN.sum(1).double()
        options = replace(self._model.options, starts=self.starts)
        grid_search.search(self._kernel, self._limits, options, points_T, score)

    def _lay_out(self) -> Any:
        from .gpu.layout import lay_out

        return lay_out(self._few, seldom=self._model.eigenbasis)

    def _begin(self, count: int, starts: int) -> Any:
        from .gpu import scoring_step

        starts_TSP = _middle(self._kernel, self._limits)[:, None].repeat(1, starts, 1)
        count_T = torch.full((len(starts_TSP),), count, dtype=torch.int32, device=self._device)
        return scoring_step.begin((starts_TSP, count_T), self._limits, self._tasks.coefficients)
