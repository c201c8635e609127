"""The arrays that compiled functions work on, of tensors."""

import numpy as np
import torch

from ..model.kernels import Kernel
from ..model.priors import Limits
from ..model.shapes import SHAPES
from ..model.tasks import TaskBatch
from ..optimize import scoring
from .layouts import Settings, TaskArrays


def factors_of(kernel: Kernel) -> np.ndarray:
    """The shapes of a kernel, as `covariance` takes them."""
    factors = [(SHAPES.index(one.shape), one.term, one.start, one.stop, one.variance) for one in kernel.factors]
    return np.array(factors, np.int64)


def settings_of(kernel: Kernel, limits: Limits, options: scoring.ScoringOptions) -> Settings:
    """What holds for every task of a fit."""
    return Settings(
        factors_of(kernel),
        to_array(limits.precision_P),
        np.ascontiguousarray(limits.fixed_P.numpy()),
        np.isin(np.arange(limits.low_TP.shape[1]), kernel.periods),
        options.steps,
        options.tolerance,
        options.max_step,
        options.patience,
        options.optimism,
    )


def arrays_of(tasks: TaskBatch, limits: Limits) -> TaskArrays:
    """The tasks of a fit."""
    shared = len(tasks) > 1 and bool((tasks.x_TND == tasks.x_TND[:1]).all())
    return TaskArrays(
        to_array(tasks.x_TND[:1] if shared else tasks.x_TND),
        to_array(tasks.y_TN),
        np.ascontiguousarray(tasks.mask_TN.numpy()),
        to_array(tasks.H_TNQ),
        to_array(tasks.known_TN),
        to_array(limits.low_TP),
        to_array(limits.high_TP),
        to_array(limits.center_TP),
    )


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor as a contiguous array of float64."""
    return np.ascontiguousarray(tensor.detach().double().numpy())
