"""What a package needs that adds a workload: options, the registration, results, reports, and models on disk.

docs/workloads.md is the guide to it.
"""

from .core.declare import pictures
from .core.declare.config import (
    DeviceOptions,
    OutOptions,
    ReportConfig,
    SeedOptions,
    TrainedModelOptions,
    build,
    option,
)
from .core.declare.registry import Command, Workload
from .core.declare.report import Report
from .core.declare.result import Result, measured
from .core.runs import model_store
from .core.runs.context import RunContext
from .engine.train.config import TrainOptions

__all__ = [
    "Command",
    "DeviceOptions",
    "OutOptions",
    "Report",
    "ReportConfig",
    "Result",
    "RunContext",
    "SeedOptions",
    "TrainOptions",
    "TrainedModelOptions",
    "Workload",
    "build",
    "measured",
    "model_store",
    "option",
    "pictures",
]
