"""What a fit gives: parameters and likelihoods of every task, and predictions from them."""

import functools
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from ..core.base import arrow
from ..core.base.arguments import as_path
from ..core.base.errors import ConfigError, CorruptError, InputError, raise_first
from ..core.base.formatting import format_bytes, format_count, format_seconds
from ..core.declare.result import Result
from ..core.memory.budget import BudgetLike
from ..core.memory.devices import DeviceLike
from ..core.memory.plan import Plan
from ..core.runs import fingerprint
from ..core.runs.events import Event
from ..core.runs.files import storage_error
from ..engine.map import map
from ..engine.map.result import MapResult
from .batch_functions import LOWER_BOUND, PREDICTED, GPModel, loo_batch, predict_batch, sample_batch
from .data.arrays import as_inputs, as_points, date_type
from .data.labels import Labels
from .data.long_table import ColumnNames
from .data.sources import GPData, read, whole
from .model.kernels import CustomKernel
from .options import KEEPS
from .store.lazy import TasksWithParameters, rows_at
from .store.models import Store, write_data, write_model, write_models
from .store.points import write_points

_MEANS = ("mean_NLML", "mean_LML_lower_bound")  # of what was fitted
_BLOCK = 65_536  # tasks whose numbers are looked through at a time
Progress = bool | Callable[[Event], None] | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fit(Result):
    """Fitted processes, one per task.

    Attributes:
        columns: the results of each task, by name; those of a store are read when they are asked for.
        status: 0 where a task converged, otherwise a code of `gp.TaskStatus` or `brimful.Status`.
        messages: task number to a sentence, for tasks that are flagged.
        plan, observed, seconds: of the run that made it, also after loading.
        done: tasks fitted by this call, and not by an earlier one that it resumed; 0 for a fit that was loaded.
        method: how they were fitted.
    """

    model: GPModel
    data: GPData | None
    columns: Mapping[str, np.ndarray]
    status: np.ndarray
    messages: dict[int, str]
    ids: pa.Array
    done: int = 0
    method: str = ""
    budget: BudgetLike = None
    device: DeviceLike = "auto"
    seed: int = 0
    _store: Store | None = None

    @property
    def params(self) -> dict[str, np.ndarray]:
        """The parameters in the units of the data, by name: variances, lengthscales, the noise variance, and the
        coefficients of the mean (mean_0 the intercept, mean_1 and on the coefficients of the inputs)."""
        names = [*self.model.names, *(f"mean_{index}" for index in range(self.model.regressors))]
        return {name: self._column(name) for name in names}

    def _column(self, name: str) -> np.ndarray:
        return self.columns[name] if self.columns else np.zeros(0)

    @property
    def nlml(self) -> np.ndarray:
        """The plain negative log marginal likelihood of each task, without priors, in nats."""
        if self.model.inducing:
            raise InputError(f'approximation="sgpr" has a bound of the likelihood and not itself: fit.{LOWER_BOUND}')
        return self._column("nlml")

    @property
    def lml_lower_bound(self) -> np.ndarray:
        """Of approximation="sgpr": what the log marginal likelihood of each task is at the least, in nats."""
        if not self.model.inducing:
            raise InputError("this fit is exact: fit.nlml is the negative log marginal likelihood itself")
        return self._column(LOWER_BOUND)

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
        return self.status == 0

    def __len__(self) -> int:
        return len(self.status)

    def table(self) -> pa.Table:
        """One row per task: its id (called as in the data, else task), status, message, parameters, points, nlml (or
        lml_lower_bound), gradient, iterations, and the predictions that were kept."""
        names = ["points", LOWER_BOUND if self.model.inducing else "nlml", "gradient", "iterations"]
        names += [name for name in self.columns if name.startswith(PREDICTED)]
        messages = [self.messages.get(task) for task in range(len(self))]
        columns = self.params | {name: self._column(name) for name in names}
        task = self.labels.id_name(("status", "message", *columns))
        about = {task: self.labels.id_column(self.ids), "status": arrow.array_of(self.status)}
        about["message"] = arrow.text_array(messages)
        tensors = {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in columns.items()}
        return pa.table(about | arrow.to_columns(tensors)[0])

    @property
    def labels(self) -> Labels:
        """The names and types of the data's columns."""
        if self.data is not None:
            return self.data.labels
        return Labels() if self._store is None else self._store.labels

    def predict(self, x_new: Any, *, noise: bool = False, progress: Progress = False) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of each task's function at new points.

        Args:
            x_new: (m,) or (m, d) for all tasks, or (tasks, m, d) of their own, (tasks, m) where d is 1; numbers, or
                dates.
            noise: the variance of a new observation instead of the function's. A known noise must be one for all.

        Returns:
            Two arrays, (tasks, m). A task that could not be fitted has NaN variances.
        """
        new = self._new_points(x_new)
        result = self._map(predict_batch, "gp predict", new, progress=progress, **self._noise(noise))
        return _values(result, ("mean", "variance"), new.shape[-2])

    def predict_to(
        self,
        out: str | Path,
        x_new: Any,
        *,
        noise: bool = False,
        progress: Progress = None,
        cancel: threading.Event | None = None,
    ) -> MapResult:
        """The same, streamed to a folder of Parquet files, with the points in `points.parquet` (one row per point, or
        one per task where each has its own); it can be interrupted and resumed."""
        new, noises = self._new_points(x_new), self._noise(noise)
        dates = self.labels.dates if date_type(x_new) else ()
        result = self._map(predict_batch, "gp predict", new, out=out, progress=progress, cancel=cancel, **noises)
        write_points(Path(out), new.numpy(), replace(self.labels, dates=dates))
        return result

    def _noise(self, wanted: bool) -> dict[str, Any]:
        """What is added to the variance of an observation: the fitted noise, or the known one."""
        if not (wanted and self.model.known):
            return {"noise": wanted}
        known = self._data().noise
        if known is None:
            raise ConfigError(
                "the known noise differs from point to point, so that of new points is not known: predict the "
                "function's variance, and add the noise of your new points to it"
            )
        return {"known": known}

    def sample(self, x_new: Any, samples: int = 1, *, seed: int | None = None) -> np.ndarray:
        """Samples of each task's function at new points: (tasks, samples, m)."""
        chosen, samples = self.seed if seed is None else whole("seed", seed), whole("samples", samples, 1)
        new = self._new_points(x_new)
        result = self._map(sample_batch, "gp sample", new, samples=samples, seed=chosen)
        return _values(result, ("samples",), samples, new.shape[-2])[0]

    def loo(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance and log density of each observation given the task's others, (tasks, points); NaN where a
        point is missing. Ragged tasks are padded to the longest, their points in the order they came."""
        width = self._data().points
        result = self._map(loo_batch, "gp loo", width=width)
        return _values(result, ("mean", "variance", "density"), width)

    def save(self, path: str | Path, *, keep: str = "params+data") -> Path:
        """Writes the models to a folder that `gp.load` reads; with their data, unless keep="params"."""
        if keep not in KEEPS[:2]:
            raise ConfigError(f"keep is {keep!r}; choose one of {', '.join(KEEPS[:2])}")
        folder, data = Path(path), self._data()
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            fault = "is not empty; choose another" if folder.is_dir() else "is a file; choose a"
            raise InputError(f"{folder} {fault} folder")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            order = data.items.index(0, len(self))
            models = self.table().take(order).set_column(0, "item", arrow.array_of(order))
            identity = fingerprint.of(["gp.Fit.save", self.model.kernel.text, models])
            write_models(folder, models, identity)
            if keep == "params+data":
                write_data(folder, data, identity)
            run = self.plan, self.observed, self.seconds
            write_model(folder, self.model, data, keep, None, self.seed, run, identity)
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)  # half a store is none, and would be in the way
            if isinstance(error, OSError):
                raise storage_error(folder, error) from error
            raise
        return folder

    def batch_of(self, task: int) -> dict[str, torch.Tensor]:
        """One task as a batch of one: its points and its parameters."""
        items = self.with_parameters()
        for start in range(0, len(self), _BLOCK):
            matches = start + np.flatnonzero(items.index(start, min(start + _BLOCK, len(self))) == task)
            if len(matches):
                return dict(items.load(int(matches[0]), int(matches[0]) + 1).tree or {})
        raise InputError(f"there is no task {task}; there are {len(self)}")

    def predict_task(self, task: int, x_new: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Mean and variance of one task at new points, and its noise variance."""
        at = torch.as_tensor(x_new, dtype=torch.float64).reshape(len(x_new), -1)
        values = predict_batch(self.batch_of(task), model=self.model, at=at)
        noise = self._data().noise if self.model.known else self._column("noise")[task]
        return values["mean"][0].numpy(), values["variance"][0].numpy(), float(noise or 0.0)

    def _data(self) -> GPData:
        if self.data is None:
            raise InputError(
                "this fit kept its parameters and not its data, and needs both: gp.load(path, x=..., y=...) with the "
                "data it was fitted to"
            )
        return self.data

    def with_parameters(self, more: dict[str, torch.Tensor] | None = None) -> TasksWithParameters:
        """The tasks' points with their parameters, and further arrays of one row per task."""
        items, store = self._data().items, self._store
        if store is not None and store.models.length == items.length:
            return TasksWithParameters(items, store.parameters, more or {})
        columns = [self._column(name).astype(np.float64) for name in self.model.names]
        stacked = torch.from_numpy(np.stack(columns, axis=1))
        return TasksWithParameters(items, lambda start, stop: rows_at(stacked, items.index(start, stop)), more or {})

    def _map(
        self,
        function: Any,
        name: str,
        new: torch.Tensor | None = None,
        out: str | Path | None = None,
        progress: Progress = False,
        cancel: threading.Event | None = None,
        **options: Any,
    ) -> MapResult:
        more: dict[str, torch.Tensor] = {}
        if new is not None:
            (options if new.ndim == 2 else more)["at" if new.ndim == 2 else "new"] = new
        return map(
            functools.partial(function, model=self.model, **options),
            self.with_parameters(more),
            budget=self.budget,
            device=self.device,
            nonfinite="allow",
            progress=progress,
            cancel=cancel,
            out=out,
            name=name,
        )

    def _new_points(self, x_new: Any) -> torch.Tensor:
        """New points: (m, d) for all tasks, or (tasks, m, d)."""
        new, dimensions = as_inputs(x_new, "x_new").double(), self._data().dimensions
        if new.ndim == 2 and dimensions == 1 and new.shape[1] != 1 and len(new) == len(self):
            new = new[:, :, None]
        if new.ndim < 3:
            return as_points(new, dimensions)
        if len(new) != len(self) or new.shape[2] != dimensions:
            raise InputError(
                f"new points have shape {tuple(new.shape)}; give ({len(self)}, m, {dimensions}), or (m, {dimensions}) "
                "for all tasks"
            )
        return new

    def quality(self) -> dict[str, Any]:
        """How good the fits are, in JSON values."""
        reached, name = (self.lml_lower_bound, _MEANS[1]) if self.model.inducing else (self.nlml, _MEANS[0])
        finite = reached[np.isfinite(reached)]
        return {
            "tasks": len(self),
            "kernel": self.model.kernel.text,
            "converged_share": float(self.converged.mean()) if len(self) else None,
            "flagged": int((~self.converged).sum()),
            name: float(finite.mean()) if len(finite) else None,
        }

    def summary(self) -> dict[str, Any]:
        done = self.done
        return {
            **self.quality(),
            "method": self.method if done or not len(self) else "already fitted",
            "batch_size": self.plan.batch,
            **Result.summary(self),
            "observed_peak_bytes": self.observed if done else None,
            "time_per_task_seconds": self.seconds / len(self) if done else None,
            "tasks_per_GB": int(done / max(self.observed, 1) * 1e9) if done else None,
            "mean_iterations": float(self.iterations.mean()) if len(self) else None,
        }

    def __str__(self) -> str:
        quality = self.quality()
        converged = 1.0 if quality["converged_share"] is None else quality["converged_share"]
        name = _MEANS[self.model.inducing > 0]
        mean = float("nan") if quality[name] is None else quality[name]
        count = format_count(len(self))
        text = (
            f"{count} processes ({quality['kernel']}), {converged:.1%} converged, {name.replace('_', ' ')} {mean:.3f}"
        )
        if len(self) and not self.done:
            return text if self.method == "loaded" else f"{text}, already fitted"
        per_task = format_seconds(self.seconds / max(1, len(self)))
        compiling = f" after compiling for {format_seconds(self.compiling)}" if self.compiling >= 1 else ""
        seconds, peak = format_seconds(self.seconds), format_bytes(self.observed)
        return f"{text}, {seconds} ({per_task} per task){compiling}, peak {peak}"


def _values(result: MapResult, names: Sequence[str], *shape: int) -> Any:
    """The results by name; of no task, empty arrays whose rows would have that shape."""
    values: Any = result.values or dict.fromkeys(names, torch.zeros(0, *shape))
    return tuple(values[name].numpy() for name in names)


def load(
    path: str | Path,
    *,
    x: Any = None,
    y: Any = None,
    noise: Any = None,
    columns: ColumnNames | None = None,
    kernel: CustomKernel | None = None,
    budget: BudgetLike = None,
    device: DeviceLike = "auto",
) -> Fit:
    """A fit that was saved, or written by `gp.fit(..., out=path)`.

    Args:
        path: the folder.
        x, y, noise, columns: the data, where it was not kept, in any of the forms of `gp.fit`. A table's tasks are put
            into the order of the models by their ids; data that is not what was fitted is refused.
        kernel: the kernel, where it is a custom one: code is never read from a folder.
        budget, device: for predictions.
    """
    raise_first(
        (x is None and given is not None, f"{name}= goes with x=, the data that the models were fitted to; give both")
        for name, given in (("y", y), ("noise", noise), ("columns", columns))
    )
    folder = as_path(path, "give the folder of a fit")
    try:
        store = Store(folder, kernel)
        data = store.data() if x is None else store.given(read(x, y, noise, None, columns))
        return Fit(
            model=store.model if data is None else replace(store.model, shared=data.shared),
            data=data,
            columns=store,
            status=store.status(),
            messages=store.messages(),
            ids=store.ids if store.ids is not None else arrow.array_of(np.arange(store.tasks)),
            plan=Plan.from_dict(store.body["plan"]),
            observed=store.body["observed"],
            seconds=store.body["seconds"],
            method="loaded",
            budget=budget,
            device=device,
            seed=store.body["seed"],
            _store=store if x is None else None,
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise CorruptError(
            f"{path} is damaged: model.json makes no sense: {error!r}; fit again into a new folder"
        ) from error
