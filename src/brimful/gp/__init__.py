"""Many independent Gaussian processes: fitted exactly, to the optimum, by the million."""

from .data.long_table import ColumnNames
from .data.sources import synthetic
from .fit import fit
from .model.kernels import custom
from .model.priors import LogNormal
from .model.tasks import TaskStatus
from .report import report
from .result import Fit, load

__all__ = ["ColumnNames", "Fit", "LogNormal", "TaskStatus", "custom", "fit", "load", "report", "synthetic"]
