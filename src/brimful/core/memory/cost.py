"""The cost of a step in bytes, as an affine function of the weight of what is in it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

MARGIN = 0.1
"""The default safety margin: plans fill 1/1.1, about 91%, of the budget."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes of a step: `fixed + per_unit * weight`.

    By default an item weighs 1; its workload may say otherwise (a ragged GP weighs n^2, a sequence its length).

    Attributes:
        fixed: bytes that are there whatever the step holds (weights, workspace).
        per_unit: bytes per unit of weight.
        margin: the safety margin on top of the estimate, as a share of it; never part of the estimate itself.
        source: where the numbers come from: "formula", "probe", "remembered" or "guess".
        fastest: the weight of the fastest step among those that were measured; 0 where none was.
        growing: whether heavier steps may be faster still: no run was long enough to tell.

    Example:
        >>> cost = Cost(fixed=1000, per_unit=10, margin=0.25)
        >>> cost.at(50), cost.guarded(50), cost.capacity(2500)
        (1500, 1875, 100.0)
    """

    fixed: float
    per_unit: float
    margin: float = MARGIN
    source: str = "formula"
    fastest: float = 0.0
    growing: bool = False

    def __post_init__(self) -> None:
        for name in ("fixed", "per_unit", "margin", "fastest"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"Cost.{name} is {value}; it must be finite and at least 0")

    def at(self, weight: float) -> int:
        """The estimate for a step of that weight."""
        return math.ceil(self.fixed + self.per_unit * weight)

    def guarded(self, weight: float) -> int:
        """The estimate with the safety margin on top: what a plan holds against the budget."""
        return math.ceil(self.at(weight) * (1 + self.margin))

    def capacity(self, budget: float) -> float:
        """The largest weight whose guarded cost is within the budget; 0 when nothing fits, infinity when
        weight costs nothing."""
        if self.guarded(0) > budget:
            return 0.0
        if self.per_unit == 0 or math.isinf(budget):
            return math.inf
        whole = int(budget / (1 + self.margin)) + 1  # the most bytes that, with the margin, are within the budget
        while math.ceil(whole * (1 + self.margin)) > budget:
            whole -= 1
        weight = max(0.0, (whole - self.fixed) / self.per_unit)
        if weight > 1e300:
            return math.inf
        while weight > 0 and self.at(weight) > whole:  # the division rounded up, by a hair
            weight = math.nextafter(weight, 0.0)
        return weight

    @classmethod
    def fit(cls, samples: Sequence[tuple[float, float]], margin: float = MARGIN, source: str = "probe") -> Self:
        """The affine cost nearest to measured (weight, peak bytes) pairs, by least squares.

        Memory never falls as weight grows, so a negative slope (noise) becomes a flat cost at the largest
        peak, and a negative intercept a line through the origin that covers every sample.
        """
        if not samples:
            raise ValueError("Cost.fit needs at least one (weight, bytes) sample")
        weights = [float(weight) for weight, _ in samples]
        peaks = [float(peak) for _, peak in samples]
        mean_w, mean_p = sum(weights) / len(weights), sum(peaks) / len(peaks)
        spread = sum((w - mean_w) ** 2 for w in weights)
        if spread == 0:
            heaviest = max(weights)
            slope = max(peaks) / heaviest if heaviest > 0 else 0.0
        else:
            slope = sum((w - mean_w) * (p - mean_p) for w, p in samples) / spread
        if slope <= 0:
            return cls(max(peaks), 0.0, margin, source)
        fixed = mean_p - slope * mean_w
        if fixed < 0:
            return cls(0.0, max(p / w for w, p in samples if w > 0), margin, source)
        return cls(fixed, slope, margin, source)
