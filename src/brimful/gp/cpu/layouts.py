"""What compiled functions work on: the tasks, what holds for all of them, and their results. Nothing here imports
torch."""

from collections import namedtuple

from .borrowed import Layout
from .simd_lanes import inlined

Settings = namedtuple("Settings", "factors precision fixed periods steps tolerance max_step patience optimism")
"""What holds for every task.

Attributes:
    factors: as `covariance` takes them.
    precision: of the priors.
    fixed, periods: which parameters stay as given, and which are periods.
    steps, tolerance, max_step, patience, optimism: as `ScoringOptions` has them.
"""

TaskArrays = namedtuple("TaskArrays", "x y mask H known low high center")
"""The tasks, their bounds and the centers of their priors: one row per task, or a single row of inputs that all tasks
share."""

ResultArrays = namedtuple("ResultArrays", "theta nlml iterations norm ending beta")
"""Results, one row per task. `theta` holds the values of fixed parameters before; `ending` as in `scoring`."""

SETTINGS = Layout(Settings, "i2 f1 b1 b1 i0 f0 f0 i0 f0")
TASKS = Layout(TaskArrays, "f3 f2 b2 f3 f2 f2 f2 f2")
RESULTS = Layout(ResultArrays, "f2 f1 i1 f1 i1 f2")


@inlined
def prior_penalty(theta, center, precision):
    s = 0.0
    for p in range(len(theta)):
        if precision[p] > 0.0:  # the logarithm of a noise that is known to be 0 is not finite
            distance = theta[p] - center[p]
            s += precision[p] * (distance * distance)
    return 0.5 * s
