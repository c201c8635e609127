"""What a fit gives: parameters and likelihoods of every task, and predictions from them."""

import functools
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from ..core.base import arrow
from ..core.base.errors import ConfigError, InputError
from ..core.base.units import format_bytes, format_count, format_seconds
from ..core.runs.files import storage_error
from ..engine.map import map
from ..engine.map.batch import Status
from ..engine.map.result import MapResult
from .batch_functions import PREDICTED, Model, loo_batch, predict_batch, sample_batch
from .data.arrays import as_inputs, as_points
from .data.long_table import Columns
from .data.sources import Data, read, whole
from .model.kernels import Custom
from .store.lazy import WithParameters
from .store.models import Store, write_data, write_model, write_models


@dataclass(slots=True, repr=False)
class Fit:
    """Fitted processes, one a task.

    Attributes:
        columns: what was found of each, by name; of a store read when it is asked for.
        status: how each fared: 0 converged, others as `gp.Fate` and `brimful.Status` have them.
        messages: task number to a sentence, for tasks that are flagged.
        way: how they were fitted.
        result: plan, peaks, seconds and rate of the fit; None for a fit that was loaded.
    """

    model: Model
    data: Data | None
    columns: Mapping[str, np.ndarray]
    status: np.ndarray
    messages: dict[int, str]
    ids: pa.Array
    budget: Any = None
    device: Any = "auto"
    seed: int = 0
    result: MapResult | None = None
    way: str = ""
    _store: Store | None = None

    @property
    def params(self) -> dict[str, np.ndarray]:
        """The parameters in the units of the data, by name: variances, lengthscales, the noise variance, and the
        coefficients of the mean (mean_0 the level, mean_1 and on the slopes)."""
        names = [*self.model.names, *(f"mean_{place}" for place in range(self.model.regressors))]
        return {name: self._column(name) for name in names}

    def _column(self, name: str) -> np.ndarray:
        return self.columns[name] if self.columns else np.zeros(0)

    @property
    def nlml(self) -> np.ndarray:
        """The plain negative log marginal likelihood of each task, without priors, in nats."""
        return self._column("nlml")

    @property
    def iterations(self) -> np.ndarray:
        """Steps taken, over all starts."""
        return self._column("iterations")

    @property
    def gradient(self) -> np.ndarray:
        """The largest part of the gradient by the logarithms of the parameters that are not at a bound."""
        return self._column("gradient")

    @property
    def converged(self) -> np.ndarray:
        """Which tasks have reached their optimum."""
        return self.status <= Status.RESCUED

    def __len__(self) -> int:
        return len(self.status)

    def table(self) -> pa.Table:
        """One row a task: task, status, message, parameters, points, nlml, gradient, iterations, and the predictions
        that were kept."""
        more = {name: self._column(name) for name in ("points", "nlml", "gradient", "iterations")}
        return pa.table(
            {
                "task": self.ids,
                "status": pa.array(self.status),
                "message": pa.array([self.messages.get(task) for task in range(len(self))], pa.string()),
                **_arrow(
                    self.params
                    | more
                    | {name: self.columns[name] for name in self.columns if name.startswith(PREDICTED)}
                ),
            }
        )

    def predict(
        self, x_new: Any, *, noise: bool = False, progress: bool | Callable[[Any], None] | None = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of each task's function at new points.

        Args:
            x_new: (m,) or (m, d) for all tasks, or (tasks, m, d) of their own, (tasks, m) where d is 1; numbers, or
                dates.
            noise: the variance of a new observation instead of the function's. A known noise must be one for all.

        Returns:
            Two arrays, (tasks, m). A task that could not be fitted has NaN variances.
        """
        result = self._map(_observed, x_new, "gp predict", progress, **self._noise(noise))
        values: Any = result.values or dict.fromkeys(("mean", "variance"), torch.zeros(0, self._count(x_new)))
        return values["mean"].numpy(), values["variance"].numpy()

    def predict_to(self, out: str | Path, x_new: Any, *, noise: bool = False, progress: Any = None) -> MapResult:
        """The same, streamed to a folder of Parquet files; it can be interrupted and resumed."""
        return self._map(_observed, x_new, "gp predict", progress, out=out, **self._noise(noise))

    def _noise(self, wanted: bool) -> dict[str, Any]:
        """What is added to the variance of an observation: the fitted noise, or the known one."""
        if not (wanted and self.model.known):
            return {"noise": wanted, "known": 0.0}
        known = self._data().noise
        if known is None:
            raise ConfigError(
                "the known noise differs from point to point, so that of new points is not known: predict the "
                "function's variance, and add the noise of your new points to it"
            )
        return {"noise": False, "known": known}

    def sample(self, x_new: Any, draws: int = 1, *, seed: int | None = None) -> np.ndarray:
        """Draws of each task's function at new points: (tasks, draws, m)."""
        chosen = self.seed if seed is None else whole("seed", seed)
        result = self._map(sample_batch, x_new, "gp sample", False, draws=whole("draws", draws, 1), seed=chosen)
        values: Any = result.values
        return values["draws"].numpy() if values else np.zeros((0, draws, self._count(x_new)))

    def loo(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance and log density of each observation given the task's others, (tasks, points); NaN where a
        point is missing. Ragged tasks are padded to the longest, their points in the order they came."""
        data = self._data()
        widest = functools.partial(_padded_loo, model=self.model, width=data.points)
        result: Any = map(
            widest,
            self._with({}),
            budget=self.budget,
            device=self.device,
            nonfinite="allow",
            progress=False,
            name="gp loo",
        )
        values = result.values or {name: torch.zeros(0, data.points) for name in ("mean", "variance", "density")}
        return values["mean"].numpy(), values["variance"].numpy(), values["density"].numpy()

    def save(self, path: str | Path, *, keep: str = "params+data") -> Path:
        """Writes the models to a folder that `gp.load` reads; with their data, unless keep="params"."""
        if keep not in ("params", "params+data"):
            raise ConfigError(f"keep is {keep!r}; choose one of params, params+data")
        folder, data = Path(path), self._data()
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; choose a folder")
        if folder.exists() and any(folder.iterdir()):
            raise InputError(f"{folder} is not empty; choose another folder")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._write(folder, data, keep)
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)  # half a store is none, and would stand in the way
            if isinstance(error, OSError):
                raise storage_error(folder, error) from error
            raise
        return folder

    def _write(self, folder: Path, data: Data, keep: str) -> None:
        order = data.items.index(0, len(self))
        columns = {
            "item": pa.array(order),
            "status": pa.array(self.status[order]),
            "message": pa.array([self.messages.get(int(task)) for task in order], pa.string()),
        }
        columns |= _arrow({name: each[order] for name, each in self.columns.items()})
        write_models(folder, columns)
        if keep == "params+data":
            write_data(folder, data)
        write_model(folder, self.model, data, keep, None, self.seed)

    def batch_of(self, task: int) -> dict[str, torch.Tensor]:
        """One task as a batch of one: its points and its parameters."""
        items = self._data().items
        start, block = 0, 65_536
        while start < len(self):
            found = np.flatnonzero(items.index(start, min(start + block, len(self))) == task)
            if len(found):
                position = start + int(found[0])
                tree = items.load(position, position + 1).tree
                assert isinstance(tree, dict)
                row = torch.tensor([[float(self._column(name)[task]) for name in self.model.names]])
                return {**tree, "parameters": row.double()}
            start += block
        raise InputError(f"there is no task {task}; there are {len(self)}")

    def one(self, task: int, x_new: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Mean and variance of one task at new points, and its noise variance."""
        at = torch.as_tensor(x_new, dtype=torch.float64).reshape(len(x_new), -1)
        found = predict_batch(self.batch_of(task), model=self.model, at=at)
        noise = self._data().noise if self.model.known else self._column("noise")[task]
        return found["mean"][0].numpy(), found["variance"][0].numpy(), float(noise or 0.0)

    def _data(self) -> Data:
        if self.data is None:
            raise InputError(
                "this fit kept its parameters and not its data, and needs both: gp.load(path, x=..., y=...) with the "
                "data it was fitted to"
            )
        return self.data

    def _with(self, more: dict[str, torch.Tensor]) -> WithParameters:
        data = self._data()
        store = self._store
        if store is not None and store.models.length == data.tasks:
            return WithParameters(data.items, store.parameters, more)
        stacked = torch.from_numpy(
            np.stack([self._column(name).astype(np.float64) for name in self.model.names], axis=1)
        )
        items = data.items
        return WithParameters(items, lambda start, stop: stacked[torch.tensor(items.index(start, stop))], more)

    def _map(
        self, function: Any, x_new: Any, name: str, progress: Any, out: str | Path | None = None, **options: Any
    ) -> MapResult:
        data = self._data()
        new = self._points(x_new)
        more: dict[str, torch.Tensor] = {}
        at: torch.Tensor | None = None
        if new.ndim == 3:
            if len(new) != len(self) or new.shape[2] != data.dimensions:
                raise InputError(
                    f"new points have shape {tuple(new.shape)}; give ({len(self)}, m, {data.dimensions}), or (m, "
                    f"{data.dimensions}) for all tasks"
                )
            more["new"] = new
        else:
            at = as_points(new, data.dimensions)
        work = functools.partial(function, model=self.model, at=at, **options)
        return map(
            work,
            self._with(more),
            budget=self.budget,
            device=self.device,
            nonfinite="allow",
            progress=progress,
            out=out,
            name=name,
        )

    def _points(self, x_new: Any) -> torch.Tensor:
        """New points: for all tasks, or, with three axes, for each."""
        new = as_inputs(x_new, "x_new").double()
        rows = new.ndim == 2 and self._data().dimensions == 1 and new.shape[1] != 1 and len(new) == len(self)
        return new[:, :, None] if rows else new

    def _count(self, x_new: Any) -> int:
        """How many new points there are."""
        new = self._points(x_new)
        return new.shape[1] if new.ndim == 3 else len(torch.atleast_1d(new))

    def __repr__(self) -> str:
        return f"<gp.Fit: {self}>"

    def __str__(self) -> str:
        finite = self.nlml[np.isfinite(self.nlml)]
        text = (
            f"{format_count(len(self))} processes ({self.model.kernel.text}), "
            f"{self.converged.mean() if len(self) else 1.0:.1%} converged, "
            f"mean NLML {finite.mean() if len(finite) else float('nan'):.3f}"
        )
        if self.result is None:
            return text
        done = self.result.done
        if len(self) and not done:
            return f"{text}, already fitted"
        seconds = self.result.seconds
        return (
            f"{text}, {format_seconds(seconds)} ({format_seconds(seconds / max(1, done))} a task), "
            f"peak {format_bytes(self.result.observed)}"
        )


def _padded_loo(batch: dict[str, torch.Tensor], *, model: Model, width: int) -> dict[str, torch.Tensor]:
    values = loo_batch(batch, model=model)
    lacking = width - values["mean"].shape[1]
    return {
        name: torch.nn.functional.pad(each, (0, lacking), value=torch.nan) if lacking > 0 else each
        for name, each in values.items()
    }


def _arrow(columns: dict[str, np.ndarray]) -> dict[str, pa.Array]:
    return arrow.to_columns({name: torch.from_numpy(np.ascontiguousarray(each)) for name, each in columns.items()})[0]


def _observed(
    batch: dict[str, torch.Tensor], *, model: Model, at: torch.Tensor | None, noise: bool, known: float
) -> dict[str, torch.Tensor]:
    found = predict_batch(batch, model=model, at=at, noise=noise)
    return found | {"variance": found["variance"] + known}


def load(
    path: str | Path,
    *,
    x: Any = None,
    y: Any = None,
    noise: Any = None,
    columns: Columns | None = None,
    kernel: Custom | None = None,
    budget: Any = None,
    device: Any = "auto",
) -> Fit:
    """A fit that was saved, or written by `gp.fit(..., out=path)`.

    Args:
        path: the folder.
        x, y, noise, columns: the data, where it was not kept, in any of the forms of `gp.fit`. A table's tasks are put
            into the order of the models by their ids; data that is not what was fitted is refused.
        kernel: the kernel, where it is one of your own: code is never read from a folder.
        budget, device: for predictions.
    """
    for name, given in (("y", y), ("noise", noise), ("columns", columns)):
        if x is None and given is not None:
            raise InputError(f"{name}= goes with x=, the data that the models were fitted to; give both")
    store = Store(Path(path), kernel)
    data = store.data() if x is None else store.given(read(x, y, noise, None, columns))
    model = store.model if data is None else replace(store.model, shared=data.shared)
    found, ids = store.columns(), store.ids()
    status = found.status()
    return Fit(
        model=model,
        data=data,
        columns=found,
        status=status,
        messages=store.messages(),
        ids=ids if ids is not None else pa.array(np.arange(len(status))),
        budget=budget,
        device=device,
        seed=store.body.get("seed", 0),
        way="loaded",
        _store=store if x is None else None,
    )
