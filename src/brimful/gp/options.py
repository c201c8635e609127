"""The options of gp's commands, declared once; those of `gp.fit` are `FitOptions`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core.declare.config import (
    TABLE,
    ClusterOptions,
    DeviceOptions,
    OutOptions,
    SeedOptions,
    TrainedModelOptions,
    build,
    option,
)
from .model.kernels import CustomKernel
from .model.tasks import MEANS

APPROXIMATIONS, INDUCING = ("none", "sgpr"), 256
KEEPS = ("params", "params+data", "predictions")
_AT = "start:stop:num, of numbers or dates, or a .npy, .csv or .parquet file of inputs"
_TEXTS = ("kernel", "priors")  # in Python they may be more than that
_AS_GIVEN = ("device", "budget")  # `map` understands them in all their forms


@dataclass(frozen=True, kw_only=True)
class FitOptions(SeedOptions, DeviceOptions, ClusterOptions, OutOptions):
    """Options of a fit, in Python and at the command line."""

    kernel: str | CustomKernel = option("rbf", help='a name, or sums and products: "linear + rbf * periodic"')
    ard: bool = option(False, help="one lengthscale per input dimension")
    mean: str = option("constant", help="mean function", choices=MEANS)
    priors: str | Mapping[str, Any] | None = option(
        "weak", help="weak keeps tiny tasks from collapsing, none is maximum likelihood", choices=("weak", "none")
    )
    steps: int = option(100, help="the most steps from one start", ge=1, aliases=("iterations", "training_iterations"))
    starts: int | None = option(
        None, help="the most starts of descents; 3 for one shape with one lengthscale, 10 for several lengthscales "
        "or a period, else 6", ge=1, le=64,
    )  # fmt: skip
    tolerance: float | None = option(
        None, help="nats still to be gained at which a task has converged; 1e-4, or 1e-5 for more than two parameters",
        gt=0, le=1e6,
    )  # fmt: skip
    approximation: str = option(
        "none",
        help="sgpr fits a lower bound by inducing points: for tasks of thousands of points",
        choices=APPROXIMATIONS,
    )
    inducing: int | None = option(None, help="inducing points of each task of sgpr; 256 by default", ge=1, le=100_000)
    keep: str = option("params+data", help="what to keep of each task in the run directory", choices=KEEPS)
    storage: str = option("float32", help="precision of the stored parameters", choices=("float32", "float16"))
    batch_size: int | None = option(None, help="tasks per batch; by default as many as fit", ge=1)

    @classmethod
    def from_python(cls, values: dict[str, Any]) -> "FitOptions":
        """The keyword arguments of a Python call, checked; a kernel, priors, a device and a budget as they are."""
        rich = {name: values[name] for name in _TEXTS if not isinstance(values.get(name), str | None)}
        rich |= {name: values[name] for name in _AS_GIVEN if name in values}
        return replace(build(cls, {name: value for name, value in values.items() if name not in rich}), **rich)


@dataclass(frozen=True, kw_only=True)
class FitConfig(FitOptions):
    """Options of `gp fit`."""

    synthetic: int | None = option(
        None, help="draw this many random tasks instead of reading data", ge=1, aliases=("total_num_tasks",)
    )
    data: Path | None = option(
        None,
        help="a long table, Parquet, CSV or TSV: one row per point, with task id, inputs and target",
        unnamed=True,
        reads=TABLE,
    )
    points: int = option(40, help="points of a synthetic task", ge=1, le=10_000, aliases=("num_train_points",))
    own_inputs: bool = option(False, help="synthetic tasks have inputs of their own instead of sharing them")
    id: str | None = option(None, help="column of the task; by default known by its usual names")
    x: str | None = option(
        None, help="column of the input, or several by commas; by default a usual name, or all columns that are left"
    )
    y: str | None = option(None, help="column of the target")
    noise: str | None = option(None, help="column of the known noise variance, if there is one")
    at: str | None = option(None, help=f"where to predict, with keep=predictions: {_AT}", files=True, reads=TABLE)


@dataclass(frozen=True, kw_only=True)
class PredictConfig(TrainedModelOptions, DeviceOptions):
    """Options of `gp predict`."""

    at: str = option(help=f"where to predict: {_AT}", files=True, reads=TABLE)
    observations: bool = option(False, help="variances of new observations instead of the function's")
    out: Path | None = option(
        None,
        help="for the predictions: a .parquet file (one row per task), a .csv file (one row per point), or a folder",
        job="predictions.parquet",
    )
