"""The arrays that compiled functions work on: the tasks, what holds for all of them, and their results."""

from collections import namedtuple

import numpy as np
import torch

from ..model.kernels import Kernel
from ..model.priors import Limits
from ..model.shapes import SHAPES
from ..model.tasks import TaskBatch
from ..optimize import scoring
from .borrowed import Layout
from .simd_lanes import inlined

Settings = namedtuple("Settings", "evaluation factors precision fixed steps tolerance max_step patience")
"""What holds for every task.

Attributes:
    evaluation: the address of the compiled likelihood; 0 where it is not known yet.
    factors: as `covariance` takes them.
    precision: of the priors.
    fixed: parameters that stay as given.
    steps, tolerance, max_step, patience: as `ScoringOptions` has them.
"""

TaskArrays = namedtuple("TaskArrays", "x y mask H known low high center")
"""The tasks, their bounds and the centers of their priors: one row per task, or a single row of inputs that all tasks
share."""

ResultArrays = namedtuple("ResultArrays", "theta nlml iterations norm ending beta")
"""Results, one row per task. `theta` holds the values of fixed parameters before; `ending` as in `scoring`."""

SETTINGS = Layout(Settings, "i0 i2 f1 b1 i0 f0 f0 i0")
TASKS = Layout(TaskArrays, "f3 f2 b2 f3 f2 f2 f2 f2")
RESULTS = Layout(ResultArrays, "f2 f1 i1 f1 i1 f2")


def factors_of(kernel: Kernel) -> np.ndarray:
    """The shapes of a kernel, as `covariance` takes them."""
    factors = [(SHAPES.index(one.shape), one.term, one.start, one.stop, one.variance) for one in kernel.factors]
    return np.array(factors, np.int64)


def settings_of(kernel: Kernel, limits: Limits, options: scoring.ScoringOptions) -> Settings:
    """What holds for every task of a fit."""
    return Settings(
        0,
        factors_of(kernel),
        to_array(limits.precision_P),
        np.ascontiguousarray(limits.fixed_P.numpy()),
        options.steps,
        options.tolerance,
        options.max_step,
        options.patience,
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


@inlined
def prior_penalty(theta, center, precision):
    s = 0.0
    for p in range(len(theta)):
        if precision[p] > 0.0:  # the logarithm of a noise that is known to be 0 is not finite
            distance = theta[p] - center[p]
            s += precision[p] * (distance * distance)
    return 0.5 * s
