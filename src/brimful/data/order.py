"""The order of an epoch: one permutation whatever the tier, split into batches, each batch into the parts of ranks.

Rank r of R takes samples `m r // R` to `m (r + 1) // R` of every batch of m: all ranks see the same number of batches,
the union over them is the batch, and where m is less than R some parts are empty.
"""

from dataclasses import dataclass

import numpy as np

from .permutation import bucket_permutation, permutation


@dataclass(frozen=True, slots=True)
class Padding:
    """What filling up to the longest of a batch costs in one epoch.

    Attributes:
        values: real values.
        padded: positions in the batches as they are.
        unsorted: positions there would be without length bucketing.
    """

    values: int
    padded: int
    unsorted: int

    @property
    def share(self) -> float:
        """The share of positions in the batches that is padding."""
        return 1 - self.values / self.padded if self.padded else 0.0

    @property
    def unsorted_share(self) -> float:
        """The same without length bucketing."""
        return 1 - self.values / self.unsorted if self.unsorted else 0.0

    def __str__(self) -> str:
        return f"{self.share:.1%} of the batches is padding; {self.unsorted_share:.1%} without length bucketing"


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Which samples are in which batch.

    Attributes:
        samples: how many there are.
        batch_size: samples of a batch, over all ranks.
        seed: of the permutation.
        shuffle: whether to permute at all.
        drop_last: whether a last, shorter batch is left out.
        bucket: over how many batches samples are sorted by length; 0 for not at all.
        lengths: (N,) for each ragged field.
    """

    samples: int
    batch_size: int
    seed: int = 0
    shuffle: bool = True
    drop_last: bool = False
    bucket: int = 0
    lengths: tuple[np.ndarray, ...] = ()

    @property
    def batches(self) -> int:
        whole, rest = divmod(self.samples, self.batch_size)
        return whole + bool(rest and not self.drop_last)

    def of(self, epoch: int) -> np.ndarray:
        """The samples' numbers in the order of an epoch."""
        plain = self._plain(epoch)
        return self._bucketed(plain, epoch) if self.bucket else plain

    def part(self, epoch: int, rank: int = 0, ranks: int = 1, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """What a rank reads from batch `first` on: sample numbers, and the bounds of the batches among them."""
        starts = np.arange(first, self.batches, dtype=np.int64) * self.batch_size
        sizes = np.minimum(self.batch_size, self.samples - starts)
        low, high = starts + sizes * rank // ranks, starts + sizes * (rank + 1) // ranks
        bounds = np.concatenate([[0], np.cumsum(high - low)]).astype(np.int64)
        positions = np.repeat(low - bounds[:-1], high - low) + np.arange(bounds[-1])
        return self.of(epoch)[positions], bounds

    def position(self, batch: int, rank: int, ranks: int) -> int:
        """How many samples of a batch come before the rank's."""
        return min(self.batch_size, self.samples - batch * self.batch_size) * rank // ranks

    def padding(self, epoch: int) -> Padding:
        """What padding costs in an epoch, with and without bucketing, in batches that are not divided among ranks."""
        kept = min(self.samples, self.batches * self.batch_size)
        order, plain = self.of(epoch)[:kept], self._plain(epoch)[:kept]
        return Padding(
            sum(int(lengths[order].sum()) for lengths in self.lengths),
            sum(self._positions(lengths[order]) for lengths in self.lengths),
            sum(self._positions(lengths[plain]) for lengths in self.lengths),
        )

    def _plain(self, epoch: int) -> np.ndarray:
        return permutation(self.samples, self.seed, epoch) if self.shuffle else np.arange(self.samples)

    def _positions(self, lengths: np.ndarray) -> int:
        starts = np.arange(0, len(lengths), self.batch_size)
        sizes = np.minimum(self.batch_size, len(lengths) - starts)
        return int((np.maximum.reduceat(lengths, starts) * sizes).sum()) if len(lengths) else 0

    def _bucketed(self, plain: np.ndarray, epoch: int) -> np.ndarray:
        """Windows of `bucket` batches, sorted by length; then their batches in random order, so that training does not
        go from short to long. A last, shorter batch is left as it is, so that leaving it out drops nobody for their
        length."""
        lengths, out = np.sum(self.lengths, axis=0), plain.copy()
        full = self.samples // self.batch_size
        for window, first in enumerate(range(0, full, self.bucket)):
            last = min(full, first + self.bucket)
            where = slice(first * self.batch_size, last * self.batch_size)
            part = plain[where]
            part = part[np.argsort(lengths[part], kind="stable")].reshape(last - first, self.batch_size)
            if self.shuffle:
                part = part[bucket_permutation(last - first, self.seed, epoch, window)]
            out[where] = part.reshape(-1)
        return out
