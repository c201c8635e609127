"""The options of `train`, declared once.

    StoppingOptions, BatchOptions, OptimizerOptions, CheckpointOptions, ExecutionOptions    groups that a command line
                     can offer
    TrainOptions     all of these; a workload's config inherits it, or the groups it honors
    TrainConfig      what `brimful.train` takes: TrainOptions, and what only Python can say

A workload that wants another default names it, and keeps the declaration: `lr: float = 5e-3`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from ...core.base.errors import ConfigError
from ...core.declare.config import SeedOptions, option
from ...core.memory.budget import Budget
from ...core.runs.function_fingerprint import of_function
from ...data.residency import TIERS
from .optim import optimizers, schedules
from .optim.optimizers import OptimizerFactory
from .optim.schedules import Schedule
from .step.precision import NAMES

ScheduleLike = str | Schedule | Callable[..., Any] | LRScheduler | ReduceLROnPlateau
"""Whatever `schedules.schedule` reads."""


@dataclass(frozen=True, kw_only=True)
class StoppingOptions:
    """When training ends."""

    epochs: int | None = option(None, help="passes over the training data", ge=1)
    steps: int | None = option(None, help="optimizer steps after which training ends, in mid-epoch if need be", ge=1)
    patience: int | None = option(None, help="epochs without improvement after which training stops early", ge=1)
    min_delta: float = option(0.0, help="least improvement that patience counts as one", ge=0)


@dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """What is computed at a time, and in what number format."""

    batch_size: int | None = option(None, help="samples per batch, over all ranks", ge=1)
    accumulation_steps: int | None = option(
        None, help="micro-batches per batch; by default as few as fit", ge=1, aliases=("accumulate",)
    )
    precision: str = option("auto", help="number format to compute in", choices=("auto", *NAMES))
    compile: bool | Mapping[str, Any] | nn.Module = option(
        False, help="run the model through torch.compile; from Python, a dict has its options"
    )


@dataclass(frozen=True, kw_only=True)
class OptimizerOptions:
    """The optimizer, its learning rate, and the average of the weights."""

    optimizer: str | OptimizerFactory | Optimizer = option("adamw", help="optimizer", choices=tuple(optimizers.NAMED))
    lr: float = option(1e-3, help="learning rate", gt=0)
    weight_decay: float | None = option(None, help="weight decay; by default 0.01 for adamw, 0 for others", ge=0)
    grad_clip: float | None = option(None, help="largest norm of the gradient", gt=0, aliases=("clip",))
    schedule: ScheduleLike = option("constant", help="schedule of the learning rate", choices=tuple(schedules.NAMED))
    first_cycle: float | None = option(
        None, help="of the cosine schedule: epochs of its first cycle, after which the rate restarts", gt=0
    )
    cycle_mult: float = option(1.0, help="of the cosine schedule: how many times longer each cycle is", ge=1)
    warmup: float = option(0.0, help="steps, or share of all steps below 1, over which the rate rises", ge=0)
    ema: float | None = option(None, help="decay of a moving average of the weights, which is then kept", gt=0, lt=1)
    ema_span: float = option(
        0.0, help="span of that average as a share of all steps; 0 for none", ge=0, le=1, aliases=("average",)
    )


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions:
    """When checkpoints are written, beside one after each epoch."""

    checkpoint_every: int | None = option(None, help="steps between checkpoints", ge=1)
    checkpoint_seconds: float = option(300.0, help="seconds between checkpoints", gt=0)


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """Where the data lives, and how steps run. None of them changes the weights.

    Attributes:
        recompute: names of submodules to recompute in the backward pass; "auto" for those that `model.recomputable()`
            names, where nothing else fits. From Python alone.
    """

    tier: str = option("auto", help="where the data lives", choices=("auto", *TIERS))
    preload_to_gpu: bool | None = option(
        None, help="whether all data is loaded to the device; by default where it fits"
    )
    graph: bool = option(False, help="on CUDA, replay steps as graphs, where shapes allow")
    max_nonfinite: int = option(10, help="steps in a row that may be skipped because they are not finite", ge=0)
    log_every: int | None = option(
        None, help="steps between readings of the losses; by default 1 on a CPU, 50 elsewhere", ge=1
    )
    recompute: Any = "auto"


@dataclass(frozen=True, kw_only=True)
class TrainOptions(StoppingOptions, BatchOptions, OptimizerOptions, CheckpointOptions, ExecutionOptions):
    """The options of training that a command line can offer."""

    def train_options(self) -> dict[str, Any]:
        """The keyword arguments of `brimful.train` among a workload's options."""
        return {declared.name: getattr(self, declared.name) for declared in fields(TrainOptions)}


_IDENTITY = (
    *("batch_size", "accumulation_steps", "optimizer", "lr", "weight_decay", "warmup", "grad_clip", "ema", "ema_span"),
    *("monitor", "mode", "seed", "recompute"),
)
_SET_BY_TRAIN = {"batch_size", "budget", "seed", "device", "tier", "preload_to_gpu", "rank", "ranks", "reserve"}
_SET_BY_TRAIN |= {"fingerprint"}


@dataclass(frozen=True, kw_only=True)
class TrainConfig(TrainOptions, SeedOptions):
    """All that decides how a model is trained. It can be sent to other processes.

    Attributes:
        budget: memory to stay inside; see `Budget`.
        monitor: the number that decides the best epoch: "valid_loss", "train_loss" or a metric.
        mode: whether the least or the greatest is the best.
        best: leave the model with the best weights; the last ones otherwise.
        recompute: names of submodules to recompute in the backward pass; "auto" for those that `model.recomputable()`
            names, where nothing else fits.
        graph: replay steps as CUDA graphs, where shapes allow.
        tier: where the data lives.
        preload_to_gpu: True for all of it on the device or an error, False for any other tier, None for either.
        loader: further options of `brimful.data.loader`, such as {"drop_last": True, "transform": f}.
        schedule_every: when a scheduler of torch's advances: "step" or "epoch"; by default at every step where it is
            OneCycleLR or CyclicLR, and once an epoch where it is another.
        log_every: steps between readings of the losses; by default 1 on a CPU, 50 elsewhere, where steps would wait.
        max_nonfinite: steps in a row that may be skipped because the loss or its gradient is not finite.
        name: the run's, in progress, log and run directory.
    """

    budget: Any = None  # in all its forms, from Python alone
    monitor: str = option("train_loss", help="what decides the best epoch")
    mode: str = option("min", help="which of them is the best", choices=("min", "max"))
    best: bool = option(True, help="keep the best weights, not the last")
    loader: Mapping[str, Any] = field(default_factory=dict)
    schedule_every: str | None = option(
        None,
        help="when a scheduler of torch's advances; by default as its documentation says",
        choices=("step", "epoch"),
    )
    name: str = option("train", help="name of the run")

    def __post_init__(self) -> None:
        if self.epochs is None and self.steps is None:
            raise ConfigError("epochs is missing; give the number of passes over the data, or steps=")
        if wrong := sorted(_SET_BY_TRAIN & set(self.loader)):
            raise ConfigError(f"loader has {wrong[0]!r}, which train sets itself; leave it out there")
        self.rate_schedule()
        Budget.parse(self.budget)

    def identity(self, given: str | None = None) -> dict[str, Any]:
        """What decides the weights, beside model, loss and data. Epochs, steps, budget and device may change between
        runs.

        Args:
            given: the user's own fingerprint, which stands for functions that have no digest.
        """
        schedule = self.rate_schedule()
        return {
            **{name: _json(getattr(self, name), given) for name in _IDENTITY},
            "precision": NAMES.get(self.precision, self.precision),
            "schedule": _json(getattr(schedule, "function", schedule), given),
            **({} if self.schedule_every is None else {"schedule_every": self.schedule_every}),
            "loader": {
                name: _json(value, given) for name, value in sorted(self.loader.items()) if name != "num_workers"
            },
        }

    def rate_schedule(self) -> Schedule:
        """The schedule of the learning rate."""
        if self.first_cycle is not None or self.cycle_mult != 1:
            if self.schedule != "cosine":
                raise ConfigError(f"first_cycle and cycle_mult are of schedule='cosine', and it is {self.schedule!r}")
            return schedules.Cosine(first_cycle=self.first_cycle, cycle_mult=self.cycle_mult)
        return schedules.schedule(self.schedule, self.schedule_every)

    def planned(self, batches: int) -> tuple[int, int]:
        """Epochs, the last of which may end early, and steps in all, where an epoch has so many batches."""
        limits = (None if self.epochs is None else self.epochs * batches, self.steps)
        steps = min(limit for limit in limits if limit is not None)
        return -(-steps // batches), steps

    @property
    def averages(self) -> bool:
        """Whether a moving average of the weights is kept."""
        return self.ema is not None or self.ema_span > 0

    @property
    def lower(self) -> bool:
        """Whether less is better."""
        return self.mode == "min"


def _json(value: Any, given: str | None) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_json(part, given) for part in value]
    if isinstance(value, Optimizer):
        plain = [{name: group[name] for name in group if name != "params"} for group in value.param_groups]
        return f"{type(value).__qualname__} {plain}"
    return of_function(value, given=given) if callable(value) else repr(value)
