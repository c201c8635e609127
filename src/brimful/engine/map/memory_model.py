"""The memory of a batch by what was measured so far, and the ceiling that batches out of memory leave behind."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from ...core.memory.cost import MARGIN, Cost

LOOK = 0.02  # seconds between looks at memory, where batches are shorter than that


@dataclass(frozen=True, slots=True)
class MemoryModel:
    """The bytes of a batch by its weight. Weights are in the items' own unit; an item weighs 1 by default.

    Attributes:
        prior: the cost known beforehand, by a formula or from an earlier run; None where there is none.
        alone: the peak of each probe, a batch that ran alone, by its weight.
        overlapped: the peak of batches of that weight that overlapped with others.
        transfers: bytes per unit of weight of the inputs and results of neighboring batches.
        results: bytes of results that stay in the memory that is counted.
        excess: bytes per unit of weight that a batch which ran out of memory took beyond the prediction.
        growth: bytes per unit of weight by which results of unequal length came to exceed those of the last probe.
    """

    prior: Cost | None = None
    alone: Mapping[float, int] = field(default_factory=dict)
    overlapped: Mapping[float, int] = field(default_factory=dict)
    transfers: float = 0.0
    results: int = 0
    excess: float = 0.0
    growth: float = 0.0
    _cost: list[Cost | None] = field(
        default_factory=list, init=False, compare=False, repr=False
    )  # once it is asked for

    def with_probe(self, weight: float, peak: int) -> Self:
        """After a batch ran alone: from here on its cost is measured, and no longer corrected."""
        return replace(self, alone={**self.alone, weight: max(peak, self.alone.get(weight, 0))}, excess=0.0)

    def with_trials(self, weight: float, peak: int) -> Self:
        """After batches of a probe's weight overlapped."""
        peak = max(peak, self.alone[weight], self.overlapped.get(weight, 0))
        return replace(self, overlapped={**self.overlapped, weight: peak})

    def with_denser_results(self, more: float) -> Self:
        """After a probe with more bytes of results per unit of weight than the one before: what was measured earlier
        would take as much more today."""
        alone = {weight: peak + int(more * weight) for weight, peak in self.alone.items()}
        overlapped = {weight: peak + int(more * weight) for weight, peak in self.overlapped.items()}
        return replace(self, alone=alone, overlapped=overlapped)

    @property
    def largest_peak(self) -> int:
        """The highest peak that batches so far make one expect, of all sizes that were run."""
        alone = max((peak + self.transfers * weight for weight, peak in self.alone.items()), default=0.0)
        return int(max(alone, *self.overlapped.values(), 0.0)) + self.results

    @property
    def remembered(self) -> bool:
        """Whether an earlier run measured the prior cost; it then includes what overlapping takes."""
        return self.prior is not None and self.prior.source == "remembered"

    @property
    def confirmed(self) -> bool:
        """Whether a probe took what an earlier run makes one expect: another size need not be measured then."""
        prior = self.prior
        if prior is None or not self.remembered:
            return False
        return any(0.8 * prior.at(weight) <= peak <= 1.05 * prior.at(weight) for weight, peak in self.alone.items())

    @property
    def cost_alone(self) -> Cost | None:
        """The cost of a batch that runs alone. One probe cannot tell what is fixed: it takes two to replace a prior."""
        if not self.alone or (self.prior is not None and len(self.alone) < 2):
            return self.prior
        return self._fit(self.alone)

    @property
    def cost(self) -> Cost | None:
        """The cost of a batch that overlaps with others, with the results that accumulate meanwhile."""
        if not self._cost:
            cost, more = self._cost_overlapped(), self.excess + self.growth
            whole = cost and replace(cost, fixed=cost.fixed + self.results, per_unit=cost.per_unit + more)
            self._cost.append(whole)
        return self._cost[0]

    def capacity(self, available: int) -> float:
        """The weight of a batch that fits into so many bytes.

        Where a cost says that not even its fixed part fits, and batches have run within those bytes all the same, it is
        a line through peaks that differ by more than the weight (or of an earlier run that had such), and what is
        fixed is unknown: then all that was measured counts as proportional to the weight. Nor is a size refused of
        which overlapping batches would take no more than that.
        """
        cost = self.cost
        if cost is None:
            return math.inf
        if cost.guarded(0) <= available or not self.alone or self.largest_peak > available:
            return max(cost.capacity(available), self._largest_fitting(available, cost.margin))
        peaks = (*self._alone_with_transfers().items(), *self.overlapped.items())
        dearest = max(peak / weight for weight, peak in peaks if weight > 0)
        return Cost(self.results, dearest + self.excess + self.growth, cost.margin).capacity(available)

    def _largest_fitting(self, available: int, margin: float) -> float:
        """The largest weight of which overlapping batches were measured, and would fit today, as all smaller ones
        would; 0 where none would, where a batch ran out of memory all the same, and where a cost was known before."""
        if self.excess or self.prior is not None:
            return 0.0
        predicted, peak, largest = self._alone_with_transfers(), 0.0, 0.0
        for weight in sorted({*predicted, *self.overlapped}):
            peak = max(peak, predicted.get(weight, 0.0), self.overlapped.get(weight, 0.0))
            if Cost(peak + self.results, self.growth, margin).guarded(weight) > available:
                break
            largest = weight if weight in self.overlapped else largest
        return largest

    def _alone_with_transfers(self) -> dict[float, float]:
        """What batches that ran alone would take beside one more input and output, by weight."""
        return {weight: peak + self.transfers * weight for weight, peak in self.alone.items()}

    def _cost_overlapped(self) -> Cost | None:
        """Overlapping costs more than one more input and output: they are carved out of blocks that the next batch
        then misses. So the peaks of overlapped batches decide where there are two, not those measured alone."""
        cost = self.cost_alone
        if cost is None or cost is self.prior:
            return cost and replace(cost, per_unit=cost.per_unit + (0.0 if self.remembered else self.transfers))
        predicted = self._alone_with_transfers()
        largest = max(predicted)
        if len(self.overlapped) >= 2:
            cost = self._fit(self.overlapped)
            if predicted[largest] > cost.at(largest):  # a probe that took more than the trials made one expect
                cost = self._fit({**self.overlapped, largest: predicted[largest]})
            return cost
        more = max((peak - predicted[weight] for weight, peak in self.overlapped.items()), default=0.0)
        cost = self._fit({weight: peak + max(0.0, more) for weight, peak in predicted.items()})
        if self.prior and self.remembered and self.prior.at(largest) > cost.at(largest):
            return self.prior  # an earlier run knew what overlapping takes
        return cost

    def _fit(self, peaks: Mapping[float, float]) -> Cost:
        """The cost through the two largest weights; through one where the two are too near to tell a slope."""
        samples = sorted(peaks.items())[-2:]
        if len(samples) == 2 and samples[0][0] > 0.8 * samples[1][0]:
            samples = samples[1:]
        return Cost.fit(samples, self.prior.margin if self.prior else MARGIN)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The weight above which batches ran out of memory.

    Attributes:
        weight: no batch may weigh more; infinite at first.
        previous: the size in use before there was a ceiling, at which it is lifted again.
        contended: whether other processes held memory then, so that it may soon rise again.
        quiet: batches finished since it was lowered or raised.
        times: how often it was lowered.
    """

    weight: float = math.inf
    previous: float = math.inf
    contended: bool = False
    quiet: int = 0
    times: int = 0

    def lowered(self, weight: float, size: float) -> Self:
        previous = size if math.isinf(self.weight) else self.previous
        return replace(self, weight=min(self.weight, weight), previous=previous, quiet=0, times=self.times + 1)

    def after_batch(self) -> Self:
        """After some batches it rises by a quarter: eight where other processes were the reason, and otherwise more,
        twice as many each time that it had to be lowered."""
        if math.isinf(self.weight):
            return self
        if self.quiet + 1 < (8 if self.contended else 32 << min(self.times, 6)):
            return replace(self, quiet=self.quiet + 1)
        raised = 1.25 * self.weight
        return replace(self, weight=math.inf if raised >= self.previous else raised, quiet=0)
