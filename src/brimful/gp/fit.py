"""`gp.fit`: many independent Gaussian processes, fitted inside a memory budget."""

import functools
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from ..core.base.errors import ConfigError
from ..core.memory import devices
from ..core.memory.cost import Cost
from ..core.memory.plan import Plan, Rejected
from ..core.runs.events import Event
from ..engine.map import map, plan_map
from ..engine.map.result import MapResult
from .batch_functions import Model, fit_batch, warm
from .data.arrays import as_points
from .data.long_table import Columns
from .data.sources import Data, read, unweighted, whole
from .model import priors as limits
from .model.kernels import Custom, Kernel, parse
from .model.tasks import MEANS
from .optimize.scoring import Rules
from .result import Fit
from .store.models import Store, write_data, write_model

KEEPS = ("params", "params+data", "predictions")
_RESERVED = re.compile(
    r"item|task|status|message|noise|points|nlml|gradient|iterations|mean_\d+|predicted_(mean|variance)"
)


def fit(
    x: Any,
    y: Any = None,
    *,
    kernel: str | Custom = "rbf",
    ard: bool = False,
    mean: str = "constant",
    priors: Mapping[str, Any] | str | None = "weak",
    bounds: Mapping[str, tuple[float, float]] | None = None,
    noise: Any = None,
    budget: Any = None,
    device: Any = "auto",
    task_ids: Any = None,
    columns: Columns | None = None,
    iterations: int = 100,
    tolerance: float | None = None,
    starts: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    keep: str = "params+data",
    at: Any = None,
    precision: str = "float32",
    batch: int | str = "auto",
    resume: bool = True,
    progress: bool | Callable[[Event], None] | None = None,
) -> Fit:
    """Fits one Gaussian process to each task, by maximum likelihood or with priors, exactly and to the optimum.

    Args:
        x: inputs: (n,) or (n, d) shared by all tasks, or (tasks, n) or (tasks, n, d) of their own; or, without y, a
            list of pairs (x, y) or (x, y, noise) of any lengths, or a long table (Arrow, pandas, polars, the path of a
            Parquet, CSV or TSV file) with a row a point. Dates, and the starts of periods, are days since 1970-01-01.
        y: targets, (tasks, n); NaN or masked is a missing value.
        kernel: "rbf", "matern12", "matern32", "matern52", "rational_quadratic", "periodic", "linear", "constant", or
            sums and products of them such as "linear + rbf * periodic"; or `gp.custom(function, ...)`.
        ard: a lengthscale for each input dimension.
        mean: "zero", "constant" or "linear"; its coefficients are fitted too.
        priors: "weak" keeps tiny tasks from collapsing (see docs/gp.md); None is plain maximum likelihood; or a dict of
            `gp.LogNormal(median, spread)` by parameter.
        bounds: (low, high) by parameter, in the units of the data.
        noise: known noise variances, one for all, (n,) or (tasks, n). Then none is fitted.
        budget, device, out, resume, progress, batch: as in `brimful.map`.
        task_ids: names of the tasks.
        columns: the names of a long table's columns, where they are not the usual ones. Where none is known as x, all
            columns but those of task, target and noise are inputs.
        iterations: the most steps from one start; for a kernel of your own, three times as many of Adam before them.
        tolerance: nats still to be gained at which a task has converged; unless said, 1e-4, and 1e-5 for kernels of
            more than two parameters, which have plains to cross.
        starts: the most first guesses to follow; unless said, 2 for one shape with one lengthscale, 6 for other
            kernels.
        seed: of posterior draws.
        keep: with `out`, what is kept of each task: "params", "params+data" (so that it can predict), or "predictions"
            at the points `at`.
        at: the points of keep="predictions".
        precision: with `out`, "float32" or "float16" parameters.

    Returns:
        Parameters, likelihood and status of every task. A task that cannot be fitted does not raise: its status says
        why, and its neighbours are as they would have been without it.

    Example:
        >>> import numpy as np
        >>> from brimful import gp
        >>> x = np.linspace(0, 1, 20)
        >>> y = np.sin(np.outer(np.arange(1, 6), x))
        >>> fit = gp.fit(x, y, progress=False)
        >>> fit.nlml.shape, fit.predict([0.5, 2.0])[0].shape
        ((5,), (5, 2))
    """
    data = read(x, y, noise, task_ids, columns)
    model = model_for(data, kernel, ard, mean, priors, bounds, noise is not None, iterations, tolerance, starts)
    check_keep(keep, at, out, precision)
    seed = whole("seed", seed)
    if batch != "auto":
        data = replace(data, items=unweighted(data.items))
    points = as_points(at, data.dimensions) if at is not None else None
    place = devices.resolve_all(device)
    work = functools.partial(fit_batch, model=model, at=points, precision=precision if out is not None else "float64")
    warm(model, place[0], data.points)
    result = map(
        work,
        data.items,
        budget=budget,
        device=device,
        batch_size=batch,
        out=out,
        resume=resume,
        nonfinite="allow",
        progress=progress,
        cost=formula(model, data, place[0]),
        name="gp fit",
    )
    if out is not None:
        if keep == "params+data":
            write_data(Path(out), data)
        write_model(Path(out), model, data, keep, points, seed)
    return _fitted(model, data, result, budget, device, seed, place[0])


def plan(model: Model, data: Data, budget: Any, device: Any, probe: bool) -> Plan:
    """The plan of a fit, without the run."""
    work = functools.partial(fit_batch, model=model)
    place = devices.resolve_all(device)[0]
    cost = formula(model, data, place)
    if probe:
        warm(model, place, data.points)
    made = plan_map(work, data.items, budget=budget, device=device, cost=cost, name="gp fit", probe=probe)
    rejected = tuple(Rejected(*each) for each in model.rejected(place, data.points))
    return replace(
        made, strategy=f"{made.strategy}: {model.way(place, data.points)}", precision="float64", rejected=rejected
    )


def model_for(
    data: Data,
    kernel: str | Custom | Kernel,
    ard: bool,
    mean: str,
    priors: Any,
    bounds: Any,
    noise_known: bool,
    iterations: int,
    tolerance: float | None,
    starts: int | None,
) -> Model:
    """The model of a fit, its options checked."""
    if mean not in MEANS:
        raise ConfigError(f"mean is {mean!r}; choose one of {', '.join(MEANS)}")
    if isinstance(kernel, str):
        kernel = parse(kernel, data.dimensions, ard)
    elif not isinstance(kernel, Custom):
        raise ConfigError(f"kernel is a {type(kernel).__name__}; give its name, or gp.custom(function, ...)")
    if starts is None:
        starts = 2 if isinstance(kernel, Kernel) and kernel.kinds == ("variance", "lengthscale") else 6
    if tolerance is None:
        tolerance = 1e-4 if len(kernel.names) <= 2 else 1e-5
    for name in kernel.names:
        if _RESERVED.fullmatch(name):
            raise ConfigError(f"a parameter is called {name!r}, a name that the table keeps for itself; rename it")
    if not isinstance(tolerance, Real) or isinstance(tolerance, bool) or not 0 < tolerance < math.inf:
        raise ConfigError(f"tolerance is {tolerance!r}; give a positive number of nats")
    for name, given in (("priors", priors), ("bounds", bounds)):
        if not (given is None or isinstance(given, Mapping) or (name == "priors" and isinstance(given, str))):
            raise ConfigError(f"{name} is a {type(given).__name__}; give a dict by parameter, or None")
    try:
        limits.check(kernel, priors, bounds)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"priors={priors!r} cannot be understood ({error}); give gp.LogNormal(median, spread)"
        ) from error
    waves = isinstance(kernel, Kernel) and "period" in kernel.kinds  # whose hollows are narrow, and slow to descend
    rules = Rules(
        iterations=whole("iterations", iterations, 1),
        tolerance=float(tolerance),
        starts=whole("starts", starts, 1),
        late=40 if waves else Rules().late,
    )
    known = noise_known or data.noise_known
    return Model(
        kernel=kernel,
        mean=mean,
        priors=priors,
        bounds=dict(bounds) if bounds else None,
        known=known,
        rules=rules,
        shared=data.shared,
        dimensions=data.dimensions,
    )


def check_keep(keep: str, at: Any, out: Any, precision: str) -> None:
    """Raises on options of the store that do not go together."""
    if not (out is None or isinstance(out, str | os.PathLike)):
        raise ConfigError(f"out is {out!r}; give the path of a folder")
    if keep not in KEEPS:
        raise ConfigError(f"keep is {keep!r}; choose one of {', '.join(KEEPS)}")
    if (keep == "predictions") != (at is not None):
        raise ConfigError("keep='predictions' and at= go together: name the points to predict at")
    if keep == "predictions" and out is None:
        raise ConfigError("keep='predictions' needs out=, the folder to keep them in")
    if precision not in ("float32", "float16"):
        raise ConfigError(f"precision is {precision!r}; choose 'float32' or 'float16'")


def formula(model: Model, data: Data, device: torch.device) -> Cost:
    """A first guess of the bytes: the points in float64 a few times over, and the matrices where they are whole."""
    n, regressors = max(1, data.points), model.regressors
    rows = 8 * 6 * n * (data.dimensions + regressors + 3)
    several = 30 if isinstance(model.kernel, Custom) else 3 * len(model.names) + 8
    engine = model.engine(device, n)
    matrices = 8 * n * n * several if engine == "torch" else 0
    rooms = len(model.names) + data.dimensions + 9  # triangles of four lanes each
    lanes = 16 * n * n * rooms * torch.get_num_threads() if engine == "native" else 0
    weight = n * n if data.items.weights is not None else 1
    fixed = (64_000_000 if model.eigenbasis else 8_000_000) + lanes
    return Cost(fixed=fixed, per_unit=max(1, (rows + matrices) // weight))


def _fitted(
    model: Model, data: Data, result: MapResult, budget: Any, device: Any, seed: int, place: torch.device
) -> Fit:
    own = model.kernel if isinstance(model.kernel, Custom) else None
    store = None if result.out is None else Store(result.out, own)
    values = result.values if store is None else None
    assert values is None or isinstance(values, dict)
    return Fit(
        model=model,
        data=data,
        columns={name: each.numpy() for name, each in (values or {}).items()} if store is None else store.columns(),
        status=result.status,
        messages=result.messages,
        ids=data.ids if data.ids is not None else pa.array(np.arange(len(result.status))),
        budget=budget,
        device=device,
        seed=seed,
        result=result,
        way=model.way(place, data.points),
        _store=store,
    )
