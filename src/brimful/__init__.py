"""Brimful: train and run huge batches of work inside a memory budget you name."""

from . import data
from ._version import __version__
from .budget import Budget
from .cost import Cost
from .engine.batch import Batch, Status
from .engine.fold import fold
from .engine.map import map
from .engine.objective import Weighted
from .engine.result import MapResult
from .engine.train import train
from .engine.trained import TrainResult
from .errors import (
    BrimfulError,
    BrimfulWarning,
    BudgetError,
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
from .plan import Plan

__all__ = [
    "Batch",
    "BrimfulError",
    "BrimfulWarning",
    "Budget",
    "BudgetError",
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
    "train",
]
