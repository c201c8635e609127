"""Brimful: train and run huge batches of work inside a memory budget you name."""

from . import data
from .core.base.errors import (
    BrimfulError,
    BrimfulWarning,
    BudgetError,
    CancelledError,
    ChangedError,
    ConfigError,
    CorruptError,
    DeviceError,
    DivergedError,
    InputError,
    LockedError,
    MissingExtraError,
    RunDirError,
    StorageError,
    WorkerError,
)
from .core.base.version import __version__
from .core.declare.open_run import open
from .core.memory.budget import Budget
from .core.memory.cost import Cost
from .core.memory.plan import Plan
from .engine.fold import fold
from .engine.map import map
from .engine.map.batch import Batch, Status
from .engine.map.result import MapResult
from .engine.train import train
from .engine.train.result import TrainResult
from .engine.train.step.loss import Weighted

__all__ = [
    "Batch",
    "BrimfulError",
    "BrimfulWarning",
    "Budget",
    "BudgetError",
    "CancelledError",
    "ChangedError",
    "ConfigError",
    "CorruptError",
    "Cost",
    "DeviceError",
    "DivergedError",
    "InputError",
    "LockedError",
    "MapResult",
    "MissingExtraError",
    "Plan",
    "RunDirError",
    "Status",
    "StorageError",
    "TrainResult",
    "Weighted",
    "WorkerError",
    "__version__",
    "data",
    "fold",
    "map",
    "open",
    "train",
]
