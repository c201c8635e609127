"""The divergence monitor: losses that are not finite, and gradients that explode."""

import math
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ....core.base.errors import DivergedError

_EXPLODED = 100.0  # times its median norm, from which on a gradient is warned of
_UPDATE_EVERY = 20  # steps between updates of the median
_MAX_OVERFLOWS = 30  # in a row, while a loss scale adapts


@dataclass(slots=True)
class DivergenceMonitor:
    """Checks every step's numbers as they are read.

    Attributes:
        max_nonfinite: steps in a row that may be skipped; one more ends the run.
        scaled: whether gradients overflow now and then by design (half precision).
        warn: warns the user.
        describe: names the batch of a step.
    """

    max_nonfinite: int
    scaled: bool
    warn: Callable[[str], None]
    describe: Callable[[int], str]
    skipped: int = 0
    _skipped_in_a_row: list[int] = field(default_factory=list)
    _overflows: int = 0
    _checked: int = 0
    _norms: deque[float] = field(default_factory=lambda: deque(maxlen=100))
    _median: float = 0.0
    _warned_in: int = -1

    def check(self, step: int, total: float, weight: float, norm: float, epoch: int) -> bool:
        """Whether the step was made; counts and warns."""
        if weight == 0:
            return False
        bad = [
            name
            for name, value in (("loss", total), ("weight", weight), ("gradient", norm))
            if not math.isfinite(value)
        ]
        if not bad:
            self._skipped_in_a_row.clear()
            self._overflows = 0
            self._check_norm(step, norm, epoch)
            return True
        if self.scaled and math.isfinite(total) and self._overflows < _MAX_OVERFLOWS:
            self._overflows += 1
            return False
        self.skipped += 1
        self._skipped_in_a_row.append(step)
        if len(self._skipped_in_a_row) > self.max_nonfinite:
            first = "; ".join(map(self.describe, self._skipped_in_a_row[:3]))
            raise DivergedError(
                f"the {bad[0]} was not finite in {len(self._skipped_in_a_row)} steps in a row, first in {first}. The "
                "weights are those before them. Use a lower learning rate, warm-up or grad_clip=1.0, and look at those "
                "samples"
            )
        self.warn(f"the {bad[0]} is not finite in {self.describe(step)}; the step was skipped")
        return False

    def _check_norm(self, step: int, norm: float, epoch: int) -> None:
        if self._median > 0 and norm > _EXPLODED * self._median and self._warned_in != epoch:
            self._warned_in = epoch  # once per epoch
            self.warn(
                f"the gradient's norm is {norm:.3g} in {self.describe(step)}, {norm / self._median:.0f} times the "
                f"median {self._median:.3g}; use grad_clip=, warm-up or a lower learning rate"
            )
        self._norms.append(norm)
        self._checked += 1
        if self._checked % _UPDATE_EVERY == 0:
            self._median = statistics.median(self._norms)
