"""What is watched while a model trains: losses that are not finite, and gradients that explode."""

import math
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ....core.base.errors import DivergedError

_SEEN = 20  # steps after which what is usual is found anew
_HALVINGS = 30  # overflows in a row that are a loss scale finding its place


@dataclass(slots=True)
class Watch:
    """Looks at every step's numbers as they are read.

    Attributes:
        most: steps in a row that may be skipped; one more ends the run.
        alarm: a gradient this many times the median of the last 100 is told of.
        scaled: whether gradients overflow now and then by design (half precision).
        warn: tells the user.
        describe: names the batch of a step.
    """

    most: int
    alarm: float
    scaled: bool
    warn: Callable[[str], None]
    describe: Callable[[int], str]
    skipped: int = 0
    _row: list[int] = field(default_factory=list)
    _overflows: int = 0
    _norms: list[float] = field(default_factory=list)
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=80))
    _usual: float = 0.0
    _told: int = -1

    def look(self, step: int, total: float, weight: float, norm: float, epoch: int) -> bool:
        """Whether the step was made; counts and tells."""
        if weight == 0:
            return False
        if math.isfinite(total) and math.isfinite(weight) and math.isfinite(norm):
            self._row.clear()
            self._overflows = 0
            self._explosion(step, norm, epoch)
            return True
        if self.scaled and math.isfinite(total) and self._overflows < _HALVINGS:
            self._overflows += 1
            return False
        self.skipped += 1
        self._row.append(step)
        what = "loss" if not math.isfinite(total) else "weight" if not math.isfinite(weight) else "gradient"
        if len(self._row) > self.most:
            named = "; ".join(self.describe(each) for each in self._row[:3])
            raise DivergedError(
                f"the {what} was not finite in {len(self._row)} steps in a row, first in {named}. The weights are "
                "those before them. Use a lower learning rate, warm-up or clip=1.0, and look at those samples"
            )
        self.warn(f"the {what} is not finite in {self.describe(step)}; the step was skipped")
        return False

    def _explosion(self, step: int, norm: float, epoch: int) -> None:
        if self._usual > 0 and norm > self.alarm * self._usual and self._told != epoch:
            self._told = epoch  # once an epoch
            self.warn(
                f"the gradient's norm is {norm:.3g} in {self.describe(step)}, {norm / self._usual:.0f} times the usual "
                f"{self._usual:.3g}; clip=, warm-up or a lower learning rate tames it"
            )
        self._norms.append(norm)
        if len(self._norms) >= _SEEN:
            self._usual = statistics.median([*self._recent, *self._norms])
            self._recent.extend(self._norms)
            self._norms.clear()
