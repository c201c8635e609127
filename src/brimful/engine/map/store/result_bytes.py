"""The memory that results take: beside other batches while they are moved and written, and where they accumulate.

Results of a fixed shape take the same bytes for every item, so that a probe tells all. Those of unequal length are
counted as they come.
"""

from dataclasses import dataclass, replace

from ..memory_model import MemoryModel

_ALIKE = 0.5  # times the heaviest batch: lighter ones differ more from each other, and say little of its results


@dataclass(frozen=True, slots=True)
class ResultBytes:
    """What is known of the results of a map.

    Attributes:
        beside: batches whose input and whose results are in memory beside the one that computes.
        gathers: whether results accumulate in the memory that is counted.
        limit: the budget in bytes.
        items, weight: how many there are in all, and what they weigh; None for a stream of unknown length.
        count, total: items done, and the bytes of their results.
        probed: bytes of results per unit of weight in the last probe.
        denser: by how many of them that probe exceeded the one before; 0 after any other batch.
        heaviest: the weight of the heaviest batch.
        densest: the most bytes of results per unit of weight, of batches near that weight.
    """

    beside: tuple[int, int]
    gathers: bool
    limit: int
    items: int | None
    weight: float | None
    count: int = 0
    total: int = 0
    probed: float | None = None
    denser: float = 0.0
    heaviest: float = 0.0
    densest: float = 0.0

    def after(self, count: int, weight: float, outward: int, probe: bool) -> "ResultBytes":
        """After a batch of that many items and that weight, with so many bytes of results."""
        density, heaviest = outward / weight, max(weight, self.heaviest)
        densest = 0.0 if self.heaviest < _ALIKE * weight else self.densest
        before = density if self.probed is None else self.probed
        return replace(
            self,
            count=self.count + count,
            total=self.total + outward,
            probed=density if probe else self.probed,
            denser=max(0.0, density - before) if probe else 0.0,
            heaviest=heaviest,
            densest=max(density, densest) if weight >= _ALIKE * heaviest else densest,
        )

    @property
    def held(self) -> int:
        """Batches whose results are in memory at once: those beside one, and its own."""
        return 1 + self.beside[1]

    def update(self, memory: MemoryModel, weight: float, outward: int, inward: int | None, varies: bool) -> MemoryModel:
        """The model of memory after that batch.

        Args:
            inward: bytes of its items, where it is a probe.
            varies: whether results differ in length from item to item.
        """
        transfers, results = memory.transfers, memory.results
        if inward is not None:
            transfers = (self.beside[0] * inward + self.beside[1] * outward) / weight
            if self.gathers and self.weight is not None and not varies:
                results = round(outward / weight * self.weight)
        if self.gathers and self.items is None:
            results = self.total
        elif self.gathers and self.items is not None and varies:
            predicted = round(self.total / self.count * self.items)
            # The first items may have the longest results: only those that are there are known to be too many.
            results = max(self.total, predicted) if predicted <= self.limit else self.total
        growth = 0.0
        if varies and self.probed is not None:  # in the batch itself, and in those beside it
            growth = self.held * max(0.0, self.densest - self.probed)
        return replace(memory, transfers=transfers, results=results, growth=growth)
