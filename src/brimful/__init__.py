"""Brimful: train and run huge batches of work inside a memory budget you name.

Importing it is quick: what a name needs is imported when the name is first used.
"""

from typing import TYPE_CHECKING

from .core.base.lazy import lazy_names
from .core.base.version import __version__

if TYPE_CHECKING:
    from . import data, gp, gpcm, locate, programs, workloads, wpo
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
    from .core.declare.open_run import open
    from .core.memory.budget import Budget, BudgetLike
    from .core.memory.cost import Cost
    from .core.memory.devices import DeviceLike
    from .core.memory.plan import Plan
    from .core.runs import events, metric_sinks
    from .engine.fold import FusedTerm, fold, plan_fold
    from .engine.map import map, plan_map
    from .engine.map.batch import Batch, Status
    from .engine.map.result import MapResult
    from .engine.map.store.part_queue import MapPart
    from .engine.map.stream import MapStream
    from .engine.train import find_lr, plan_train, train
    from .engine.train.optim import schedules
    from .engine.train.result import TrainResult
    from .engine.train.step.loss import Weighted
    from .service.client import AsyncClient, Client
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "AsyncClient",
    "Batch",
    "BrimfulError",
    "BrimfulWarning",
    "Budget",
    "BudgetError",
    "BudgetLike",
    "CancelledError",
    "ChangedError",
    "Client",
    "ConfigError",
    "CorruptError",
    "Cost",
    "DeviceError",
    "DeviceLike",
    "DivergedError",
    "FusedTerm",
    "InputError",
    "LockedError",
    "MapPart",
    "MapResult",
    "MapStream",
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
    "events",
    "find_lr",
    "fold",
    "gp",
    "gpcm",
    "locate",
    "map",
    "metric_sinks",
    "open",
    "plan_fold",
    "plan_map",
    "plan_train",
    "programs",
    "schedules",
    "train",
    "workloads",
    "wpo",
]
