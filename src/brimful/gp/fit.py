"""`gp.fit`: many independent Gaussian processes, fitted inside a memory budget."""

import functools
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import torch

from ..core.base import arrow
from ..core.base.errors import ConfigError, raise_first
from ..core.memory import devices
from ..core.memory.cost import Cost
from ..core.memory.plan import Plan, Rejected
from ..core.runs.events import Event
from ..core.runs.rundir import identity_of, read_manifest
from ..engine.map import map, plan_map
from .batch_functions import GPModel, fit_batch
from .compilation import compilation
from .data.arrays import as_points, date_type
from .data.long_table import ColumnNames
from .data.sources import GPData, read, unweighted
from .keywords import FitKeywords
from .model import sgpr
from .model.kernels import CustomKernel, Kernel, parse
from .model.priors import check
from .optimize import eigenbasis
from .optimize.scoring import ScoringOptions
from .options import INDUCING, FitOptions
from .result import Fit
from .store.models import Store, write_data, write_model
from .store.points import write_points

_COPIES = 8  # of matrices that an evaluation with inducing points has in memory, and two per parameter
_OF_WAVES: dict[str, Any] = {"patience": 40, "optimism": 30.0}  # minima that are narrow, and slow to descend
_RESERVED = re.compile(
    r"item|task|status|message|noise|points|nlml|lml_lower_bound|gradient|iterations|mean_\d+"
    r"|predicted_(mean|variance)"
)


def fit(
    x: Any,
    y: Any = None,
    *,
    noise: Any = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    task_ids: Any = None,
    columns: ColumnNames | None = None,
    at: Any = None,
    resume: bool = True,
    progress: bool | Callable[[Event], None] | None = None,
    cancel: threading.Event | None = None,
    **options: Unpack[FitKeywords],
) -> Fit:
    """Fits one Gaussian process to each task, by maximum likelihood or with priors, exactly and to the optimum.

    Args:
        x: inputs: (n,) or (n, d) shared by all tasks, or (tasks, n) or (tasks, n, d) of their own; or, without y, a
            list of pairs (x, y) or (x, y, noise) of any lengths, or a long table (Arrow, pandas, polars, the path of a
            Parquet, CSV or TSV file) with one row per point. Dates, and the starts of periods, are days since
            1970-01-01.
        y: targets, (tasks, n); NaN or masked is a missing value.
        noise: known noise variances, one for all, (n,) or (tasks, n). Then none is fitted.
        bounds: (low, high) by parameter, in the units of the data.
        task_ids: names of the tasks.
        columns: the names of a long table's columns, where they are not the usual ones. Where none is known as x, all
            columns but those of task, target and noise are inputs.
        at: the points of keep="predictions".
        resume, progress, cancel: as in `brimful.map`.
        options: those of `FitOptions`, which has their defaults and ranges:

            kernel: "rbf", "matern12", "matern32", "matern52", "rational_quadratic", "periodic", "linear", "constant",
            or sums and products of them such as "linear + rbf * periodic"; or `gp.custom(function, ...)`.
            ard: one lengthscale per input dimension.
            mean: "zero", "constant" or "linear"; its coefficients are fitted too.
            priors: "weak" keeps tiny tasks from collapsing (see docs/gp.md); None is plain maximum likelihood; or a
            dict of `gp.LogNormal(median, spread)` by parameter.
            steps: the most steps from one start; for a custom kernel, three times as many of Adam before them.
            starts, tolerance: the most starts to descend from, and the nats still to be gained at which a task has
            converged.
            budget, device, cluster, out, batch_size: as in `brimful.map`.
            approximation, inducing: "sgpr" fits a lower bound of the likelihood by so many inducing points per task,
            for tasks of thousands of points; by default the likelihood is exact, however many there are.
            keep: with `out`, what is kept of each task: "params", "params+data" (so that it can predict), or
            "predictions" at the points `at`.
            storage: with `out`, "float32" or "float16" parameters.
            seed: of posterior samples.

    Returns:
        Parameters, likelihood and status of every task. A task that cannot be fitted does not raise: its status says
        why, and its neighbors are as they would have been without it.

    Example:
        >>> import numpy as np
        >>> from brimful import gp
        >>> x = np.linspace(0, 1, 20)
        >>> y = np.sin(np.outer(np.arange(1, 6), x))
        >>> fit = gp.fit(x, y, progress=False)
        >>> fit.nlml.shape, fit.predict([0.5, 2.0])[0].shape
        ((5,), (5, 2))
    """
    data, checked = read(x, y, noise, task_ids, columns), FitOptions.from_python(dict(options))
    return fit_data(data, checked, bounds=bounds, at=at, resume=resume, progress=progress, cancel=cancel)


def fit_data(
    data: GPData,
    options: FitOptions,
    *,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    at: Any = None,
    resume: bool = True,
    progress: bool | Callable[[Event], None] | None = None,
    cancel: threading.Event | None = None,
) -> Fit:
    """`fit`, of data and options that were read."""
    model, out, keep = model_for(data, options, bounds), options.out, options.keep
    predictions = keep == "predictions"
    raise_first(
        (
            (
                predictions != (at is not None),
                "keep='predictions' and at= go together: name the points to predict at",
            ),
            (predictions and out is None, "keep='predictions' needs out=, the folder to keep them in"),
        ),
        ConfigError,
    )
    if options.batch_size is not None:
        data = replace(data, items=unweighted(data.items))
    points = as_points(at, data.dimensions) if at is not None else None
    device, storage = _device(options), "float64" if out is None else options.storage
    result = map(
        functools.partial(fit_batch, model=model, at=points, storage=storage),
        data.items,
        budget=options.budget,
        device=options.device,
        cluster=options.cluster,
        batch_size=options.batch_size or "auto",
        out=out,
        resume=resume,
        nonfinite="allow",
        progress=progress,
        cancel=cancel,
        cost=formula(model, data, device),
        name="gp fit",
        warm_up=compilation(model, device, data) if options.cluster is None else None,
    )
    values: Any = result.values if out is None else None
    store = None
    if out is not None:
        identity = identity_of(read_manifest(out))
        if keep == "params+data":
            write_data(out, data, identity)
        if points is not None:
            write_points(out, points.numpy(), replace(data.labels, dates=data.labels.dates if date_type(at) else ()))
        run = result.plan, result.observed, result.seconds
        write_model(out, model, data, keep, points, options.seed, run, identity)
        store = Store(out, model.kernel if isinstance(model.kernel, CustomKernel) else None)
    return Fit(
        model=model,
        data=data,
        columns={name: value.numpy() for name, value in (values or {}).items()} if store is None else store,
        status=result.status,
        messages=result.messages,
        ids=data.ids if data.ids is not None else arrow.array_of(np.arange(len(result.status))),
        plan=result.plan,
        observed=result.observed,
        seconds=result.seconds,
        compiling=result.compiling,
        done=result.done,
        method=model.method(device, data.points),
        budget=options.budget,
        device=options.device,
        seed=options.seed,
        _store=store,
    )


def plan_fit(data: GPData, options: FitOptions, probe: bool) -> Plan:
    """The plan of a fit, without the run."""
    model, device = model_for(data, options), _device(options)
    compiling = compilation(model, device, data)
    if probe and compiling is not None:
        compiling()
    plan = plan_map(
        functools.partial(fit_batch, model=model),
        data.items,
        budget=options.budget,
        device=options.device,
        cluster=options.cluster,
        cost=formula(model, data, device),
        name="gp fit",
        probe=probe,
    )
    rejected = tuple(Rejected(*reason) for reason in model.rejected(device, data.points))
    strategy = f"{plan.strategy}: {model.method(device, data.points)}"
    return replace(plan, strategy=strategy, precision="float64", rejected=rejected)


def _device(options: FitOptions) -> torch.device:
    """Where tasks are fitted; on a cluster, the kind that its nodes are assumed to have."""
    if options.cluster is not None:
        return torch.device("cuda" if "cuda" in str(options.device) else "cpu")
    return devices.resolve_all(options.device)[0]


def model_for(data: GPData, options: FitOptions, bounds: Any = None) -> GPModel:
    """The model of a fit, its options checked."""
    kernel, priors = options.kernel, None if options.priors == "none" else options.priors
    if isinstance(kernel, str):
        kernel = parse(kernel, data.dimensions, options.ard)
    elif not isinstance(kernel, CustomKernel):
        raise ConfigError(f"kernel is a {type(kernel).__name__}; give its name, or gp.custom(function, ...)")
    kinds = kernel.kinds if isinstance(kernel, Kernel) else ()
    raise_first(
        (
            (
                _RESERVED.fullmatch(name),
                f"a parameter is called {name!r}, a name that the table keeps for itself; rename it",
            )
            for name in kernel.names
        ),
        ConfigError,
    )
    check(kernel, priors, bounds)
    sparse, inducing = options.approximation == "sgpr", options.inducing
    raise_first(
        (
            (
                sparse and isinstance(kernel, CustomKernel),
                'approximation="sgpr" needs a kernel by name; leave it out for a kernel of your own',
            ),
            (
                inducing is not None and not sparse,
                f'inducing is {inducing} and nothing is approximated; add approximation="sgpr", or leave it out',
            ),
        ),
        ConfigError,
    )
    scoring = ScoringOptions(
        steps=options.steps,
        tolerance=options.tolerance or (1e-4 if len(kernel.names) <= 2 else 1e-5),
        starts=options.starts or _starts(kinds),
        **(_OF_WAVES if "period" in kinds else {}),
    )
    return GPModel(
        kernel=kernel,
        mean=options.mean,
        priors=priors,
        bounds=dict(bounds) if bounds else None,
        known=data.noise_known,
        options=scoring,
        shared=data.shared,
        dimensions=data.dimensions,
        inducing=(inducing or INDUCING) if sparse else 0,
        basis_pays=eigenbasis.pays(data.points, data.tasks, devices.resolve_all(options.device)[0]),
    )


def _starts(kinds: tuple[str, ...]) -> int:
    """The most starts by default: one lengthscale has few minima, and of several many that are found cheaply."""
    if kinds == ("variance", "lengthscale"):
        return 3
    return 10 if kinds.count("lengthscale") > 1 or "period" in kinds else 6


def formula(model: GPModel, data: GPData, device: torch.device) -> Cost:
    """An estimate of the bytes: the points in float64 a few times over, and the matrices where they are whole."""
    n, regressors = max(1, data.points), model.regressors
    rows = 8 * 6 * n * (data.dimensions + regressors + 3)
    backend = model.backend(device, n)
    several = {"torch": 30 if isinstance(model.kernel, CustomKernel) else 3 * len(model.names) + 8, "matrices": 4}
    matrices = 8 * n * n * several.get(backend, 0)
    triangles = len(model.names) + data.dimensions + 9  # of four lanes each
    lanes = 16 * n * n * triangles * torch.get_num_threads() if backend == "native" else 0
    weight = n * n if data.items.weights is not None else 1
    fixed = (64_000_000 + eigenbasis.basis_bytes(n) if model.eigenbasis else 8_000_000) + lanes
    if model.inducing:
        numbers = sgpr.tasks_at_once(device, n, model.inducing) * n * min(n, model.inducing)
        fixed += 8 * numbers * (_COPIES + 2 * len(model.names))
    return Cost(fixed=fixed, per_unit=max(1, (rows + matrices) // weight))
