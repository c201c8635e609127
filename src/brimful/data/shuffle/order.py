"""The order of an epoch: one shuffle whatever the tier, split into batches, each batch into the parts of ranks.

Rank r of R takes samples `m r // R` to `m (r + 1) // R` of every batch of m: all ranks see the same number of batches,
the union over them is the batch, and where m is less than R some parts are empty.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .permutation import bucket_permutation
from .window import WindowShuffle


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
        chunk_rows, window: samples of a chunk, and chunks within which they are shuffled; 0 for all samples at once.
    """

    samples: int
    batch_size: int
    seed: int = 0
    shuffle: bool = True
    drop_last: bool = False
    bucket: int = 0
    lengths: tuple[np.ndarray, ...] = ()
    chunk_rows: int = 0
    window: int = 0

    @property
    def windows(self) -> WindowShuffle:
        """The shuffle, before batches are sorted by length."""
        if not self.window:
            return WindowShuffle.full(self.samples, self.seed)
        return WindowShuffle(self.samples, self.seed, self.chunk_rows, self.window)

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
        positions, bounds = self.positions(rank, ranks, first)
        return self.of(epoch)[positions], bounds

    def of_on(self, device: torch.device, epoch: int) -> Tensor:
        """`of`, made on a device; without length bucketing, which is done on the host."""
        if self.bucket:
            return torch.from_numpy(self.of(epoch)).to(device)
        return self.windows.of_on(device, epoch) if self.shuffle else torch.arange(self.samples, device=device)

    def spans(self, rank: int, ranks: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Where in the order of an epoch the rank's part of each batch begins and ends, from batch `first` on."""
        starts = np.arange(first, self.batches, dtype=np.int64) * self.batch_size
        sizes = np.minimum(self.batch_size, self.samples - starts)
        return starts + sizes * rank // ranks, starts + sizes * (rank + 1) // ranks

    def positions(self, rank: int, ranks: int, first: int = 0) -> tuple[slice | np.ndarray, np.ndarray]:
        """All places in the order of an epoch that a rank reads, and the bounds of the batches among them."""
        low, high = self.spans(rank, ranks, first)
        bounds = np.concatenate([[0], np.cumsum(high - low)]).astype(np.int64)
        if ranks == 1:
            return slice(first * self.batch_size, first * self.batch_size + int(bounds[-1])), bounds
        return np.repeat(low - bounds[:-1], high - low) + np.arange(bounds[-1]), bounds

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
        return self.windows.of(epoch) if self.shuffle else np.arange(self.samples)

    def _positions(self, lengths: np.ndarray) -> int:
        starts = np.arange(0, len(lengths), self.batch_size)
        sizes = np.minimum(self.batch_size, len(lengths) - starts)
        return int((np.maximum.reduceat(lengths, starts) * sizes).sum()) if len(lengths) else 0

    def _bucketed(self, plain: np.ndarray, epoch: int) -> np.ndarray:
        """Windows of `bucket` batches, sorted by length; then their batches in random order, so that training does not
        go from short to long. A last, shorter batch is left as it is, so that leaving it out drops nobody for their
        length."""
        lengths, width = np.sum(self.lengths, axis=0), self.bucket * self.batch_size
        parts = [lengths[plain[start : start + width]] for start in range(0, self.samples, width)]
        return np.concatenate(
            [plain[number * width :][self.bucket_index(epoch, number, part)] for number, part in enumerate(parts)]
        )

    def bucket_index(self, epoch: int, number: int, lengths: np.ndarray) -> np.ndarray:
        """The order of the samples of `bucket` batches, the `number`-th of such, by their lengths."""
        full = len(lengths) // self.batch_size
        part = np.argsort(lengths[: full * self.batch_size], kind="stable").reshape(full, self.batch_size)
        if self.shuffle and full:
            part = part[bucket_permutation(full, self.seed, epoch, number)]
        return np.concatenate([part.reshape(-1), np.arange(full * self.batch_size, len(lengths))])
