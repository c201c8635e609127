"""The options of `train` as typed keywords, for editors and type checkers; `config` declares them, with their defaults.

A test holds the two together.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from torch import nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from ...core.memory.budget import BudgetLike
from .optim.optimizers import OptimizerLike
from .optim.schedules import Schedule


class TrainOptionKeywords(TypedDict, total=False):
    """Those of `TrainOptions`, which workloads take too."""

    epochs: int | None
    steps: int | None
    patience: int | None
    min_delta: float
    batch_size: int | None
    accumulation_steps: int | None
    precision: str
    compile: bool | Mapping[str, Any] | nn.Module
    optimizer: OptimizerLike
    lr: float
    weight_decay: float | None
    grad_clip: float | None
    schedule: str | Schedule | LRScheduler | ReduceLROnPlateau | Callable[..., Any]
    first_cycle: float | None
    cycle_mult: float
    warmup: float
    ema: float | None
    ema_span: float
    checkpoint_every: int | None
    checkpoint_seconds: float
    tier: str
    preload_to_gpu: bool | None
    graph: bool
    max_nonfinite: int
    log_every: int | None
    recompute: str | Sequence[str] | bool | None


class TrainKeywords(TrainOptionKeywords, total=False):
    """Those of `TrainConfig`."""

    seed: int
    budget: BudgetLike
    monitor: str
    mode: str
    best: bool
    loader: Mapping[str, Any]
    schedule_every: Literal["step", "epoch"] | None
    name: str
