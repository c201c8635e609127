"""The options of `train`, checked: one frozen value that can be sent to other processes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...core.base.errors import ConfigError
from ...core.memory.budget import Budget
from ...core.runs import fingerprint
from ...data.loader import whole_number
from .optim import schedules
from .optim.optimizers import Maker
from .step.precision import NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to train; see `train` for what each means."""

    epochs: int | None = None
    steps: int | None = None
    batch_size: int | None = None
    budget: Any = None
    precision: str = "auto"
    accumulate: int | str = "auto"
    optimizer: str | Maker = "adamw"
    lr: float = 1e-3
    weight_decay: float | None = None
    schedule: Any = "constant"
    warmup: float = 0
    clip: float | None = None
    ema: float | None = None
    monitor: str = "train_loss"
    mode: str = "min"
    patience: int | None = None
    best: bool = True
    recompute: Any = "auto"
    compile: Any = False
    graph: bool = False
    tier: str = "auto"
    loader: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    checkpoint_every: int | None = None
    checkpoint_seconds: float = 300.0
    log_every: int = 50
    max_nonfinite: int = 10
    alarm: float = 100.0
    name: str = "train"

    def __post_init__(self) -> None:
        if self.epochs is None and self.steps is None:
            raise ConfigError("epochs is missing; say how often to go through the data, or give steps=")
        whole_number("log_every", self.log_every, 1)
        whole_number("max_nonfinite", self.max_nonfinite, 0)
        whole_number("seed", self.seed, 0, 2**64 - 1)
        for name, least in (("epochs", 1), ("steps", 1), ("batch_size", 1), ("checkpoint_every", 1), ("patience", 1)):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), least)
        if self.accumulate != "auto":
            whole_number("accumulate", self.accumulate, 1)
        whole = ("epochs", "steps", "log_every", "max_nonfinite", "seed", "batch_size", "checkpoint_every", "patience")
        for name in whole:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, int(getattr(self, name)))  # numpy's integers are not JSON's
        for name in ("lr", "clip", "checkpoint_seconds", "alarm"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and value > 0):
                raise ConfigError(f"{name} is {value!r}; give a number above 0")
        if self.weight_decay is not None and not (_is_number(self.weight_decay) and self.weight_decay >= 0):
            raise ConfigError(f"weight_decay is {self.weight_decay!r}; give 0 or more")
        if self.ema is not None and not (_is_number(self.ema) and 0 < self.ema < 1):
            raise ConfigError(f"ema is {self.ema!r}; give a decay between 0 and 1, such as 0.999")
        if not (_is_number(self.warmup) and self.warmup >= 0):
            raise ConfigError(f"warmup is {self.warmup!r}; give a number of steps, or a share of all below 1")
        if self.mode not in ("min", "max"):
            raise ConfigError(f"mode is {self.mode!r}; choose 'min' or 'max': what is better for {self.monitor!r}")
        if self.precision != "auto" and self.precision not in NAMES:
            raise ConfigError(f"precision is {self.precision!r}; choose auto, float32, bf16, fp16 or float64")
        taken = {"batch_size", "budget", "seed", "device", "tier", "rank", "ranks", "reserve", "fingerprint"}
        if wrong := sorted(taken & set(self.loader)):
            raise ConfigError(f"loader has {wrong[0]!r}, which train sees to itself; leave it out there")
        schedules.schedule(self.schedule)
        Budget.parse(self.budget)

    def identity(self) -> dict[str, Any]:
        """What decides the weights, beside model, loss and data. Epochs, steps, budget and device may change between
        runs."""
        names = ("batch_size", "lr", "weight_decay", "warmup", "clip", "ema", "monitor", "mode", "seed", "recompute")
        return {
            **{name: _json(getattr(self, name)) for name in names},
            "precision": NAMES.get(self.precision, self.precision),
            "accumulate": self.accumulate,
            "optimizer": self.optimizer if isinstance(self.optimizer, str) else _print(self.optimizer),
            "schedule": self._schedule_identity(),
            "loader": {name: _json(value) for name, value in sorted(self.loader.items()) if name != "num_workers"},
        }

    def _schedule_identity(self) -> str:
        chosen = schedules.schedule(self.schedule)
        return _print(chosen.function) if isinstance(chosen, schedules.Own) else repr(chosen)

    def planned(self, batches: int) -> tuple[int, int]:
        """Epochs, the last of which may end early, and steps in all, where an epoch has so many batches."""
        steps = self.steps if self.epochs is None else self.epochs * batches
        assert steps is not None
        steps = min(steps, self.steps or steps)
        return -(-steps // batches), steps

    @property
    def lower(self) -> bool:
        """Whether less is better."""
        return self.mode == "min"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _json(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_json(part) for part in value]
    return _print(value) if callable(value) else repr(value)


def _print(function: Callable[..., Any]) -> str:
    return fingerprint.of_function(function)
