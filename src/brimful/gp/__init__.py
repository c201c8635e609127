"""Many independent Gaussian processes: fitted exactly, to the optimum, by the million."""

from .data import synthetic
from .fit import fit
from .fitted import Fit, load
from .kernels import custom
from .priors import LogNormal
from .table import Columns
from .tasks import Fate

__all__ = ["Columns", "Fate", "Fit", "LogNormal", "custom", "fit", "load", "synthetic"]
