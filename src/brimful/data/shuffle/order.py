"""The order of an epoch: one shuffle whatever the tier, split into batches, each batch into the parts of ranks.

Legend: N samples, V shards, B batches.

Rank r of R takes samples `m r // R` to `m (r + 1) // R` of every batch of m: all ranks see the same number of batches,
the union over them is the batch, and where m is less than R some parts are empty.

With shards, the samples are V ranges of consecutive chunks, each shuffled by itself, and every batch takes its share of
each, one after the other: shard v has given `e[v + 1] x // N - e[v] x // N` of the first x samples, where it begins at
sample e[v]. Batches depend on V and not on R. Where R divides V, a rank takes the samples of V / R shards, and never
reads another.

With length bucketing, each run of `bucket` batches is sorted by length and divided anew: into batches of `batch_size`
samples, or with `balance` into as many batches of about as many values.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...core.base.errors import ConfigError
from ...core.base.formatting import format_count, plural
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
        seed: of the shuffle.
        shuffle: whether to shuffle at all.
        drop_last: whether a last, shorter batch is left out.
        bucket: over how many batches samples are sorted by length; 0 for not at all.
        balance: whether those batches have about as many values as each other, and not as many samples.
        lengths: (N,) for each ragged field.
        chunk_rows, window: samples of a chunk, and chunks within which they are shuffled; 0 for all of them.
        shards: ranges of chunks that are shuffled by themselves.
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
    shards: int = 1
    balance: bool = False

    def __post_init__(self) -> None:
        if self.shards == 1:
            return
        if self.bucket:
            raise ConfigError(f"shards={self.shards} and bucket={self.bucket} exclude each other; leave one out")
        smallest = int(np.diff(self.edges).min())
        if smallest * self.batch_size < 2 * self.samples:
            raise ConfigError(
                f"shards={self.shards}: the smallest has {smallest} of {self.samples} samples, so a batch of "
                f"{self.batch_size} would not hold 2 of each. Use fewer shards, smaller chunks or a larger batch_size"
            )

    @property
    def batches(self) -> int:
        whole, rest = divmod(self.samples, self.batch_size)
        return whole + bool(rest and not self.drop_last)

    def __str__(self) -> str:
        batches = f"{plural(self.batches, 'batch', 'batches')} of {format_count(self.batch_size)}"
        return f"{plural(self.samples, 'sample')} in {batches}, {'shuffled' if self.shuffle else 'in order'}"

    @property
    def edges(self) -> np.ndarray:
        """(V + 1,) where the shards begin, and the end of the last."""
        if self.shards == 1:
            return np.array([0, self.samples])
        chunks = -(-self.samples // self.chunk_rows)
        return np.minimum(self.samples, np.arange(self.shards + 1) * chunks // self.shards * self.chunk_rows)

    def shard(self, number: int) -> WindowShuffle:
        """The shuffle of a shard, before batches are sorted by length. Its numbers begin at 0."""
        edges = self.edges
        samples = int(edges[number + 1] - edges[number])
        rows = self.chunk_rows or max(1, samples)
        window = max(1, self.window // self.shards) if self.window else -(-samples // rows)
        return WindowShuffle(samples, self.seed, rows, window, number)

    def shards_of(self, rank: int, ranks: int) -> range:
        """The shards that a rank reads."""
        own, rest = divmod(self.shards, ranks)
        return range(self.shards) if rest else range(rank * own, (rank + 1) * own)

    def rows_of(self, rank: int, ranks: int) -> tuple[int, int]:
        """The first sample that a rank may read in any epoch, and the one after the last."""
        shards, edges = self.shards_of(rank, ranks), self.edges
        return int(edges[shards.start]), int(edges[shards.stop])

    def of(self, epoch: int) -> np.ndarray:
        """The samples' numbers in the order of an epoch."""
        return self._bucketed(epoch)[0] if self.bucket else self._plain(epoch)

    def part(self, epoch: int, rank: int = 0, ranks: int = 1, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """What a rank reads from batch `first` on: sample numbers, and the bounds of the batches among them."""
        if self.bucket:
            order, bounds = self._bucketed(epoch)
            low, high = _share(bounds[first:], rank, ranks)
            return order[_ranges(low, high)], _bounds(high - low)
        places, bounds = self.places(rank, ranks, first)
        order = self._shards(epoch, self.shards_of(rank, ranks)) if self.shards > 1 else self.of(epoch)
        return order[places], bounds

    def part_on(self, device: torch.device, epoch: int, rank: int, ranks: int, places: slice | Tensor) -> Tensor:
        """The numbers of `part`, made on a device; `places` as `places` gives them, there. Not for buckets, which are
        sorted on the host."""
        orders = []
        for number in self.shards_of(rank, ranks):
            shard, start = self.shard(number), int(self.edges[number])
            order = shard.of_on(device, epoch) if self.shuffle else torch.arange(shard.samples, device=device)
            orders.append(order + start if start else order)
        order = orders[0] if len(orders) == 1 else torch.cat(orders)
        return order[places] if isinstance(places, slice) else order.index_select(0, places)

    def cuts(self, rank: int, ranks: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """(V, B) where in the order of a shard the rank's part of each batch begins and ends, from batch `first` on."""
        starts = np.arange(first, self.batches, dtype=np.int64) * self.batch_size
        given, offsets, low, high = self._divide(starts, rank, ranks)
        counts = np.diff(offsets, axis=0)
        return (
            given + np.clip(low - offsets[:-1], 0, counts),
            given + np.clip(high - offsets[:-1], 0, counts),
        )

    def _divide(
        self, starts: np.ndarray, rank: int, ranks: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of the batches that begin at some places of the epoch: what each shard has given before, where each begins in
        the batch, and where in the batch the rank's part begins and ends."""
        ends = np.minimum(self.samples, starts + self.batch_size)
        edges, sizes = self.edges[:, None], ends - starts
        before, after = edges * starts // self.samples, edges * ends // self.samples  # by all shards up to each edge
        offsets = after - before
        if self.shards > 1 and self.shards % ranks == 0:
            own = self.shards_of(rank, ranks)
            low, high = offsets[own.start], offsets[own.stop]
        else:
            low, high = sizes * rank // ranks, sizes * (rank + 1) // ranks
        return np.diff(before, axis=0), offsets, low, high

    def places(self, rank: int, ranks: int, first: int = 0) -> tuple[slice | np.ndarray, np.ndarray]:
        """All that a rank reads, as places in the orders of its shards one after the other, and the bounds of the
        batches among them."""
        low, high = self.cuts(rank, ranks, first)
        bounds = _bounds((high - low).sum(0))
        if self.shards == ranks == 1:
            return slice(first * self.batch_size, first * self.batch_size + int(bounds[-1])), bounds
        shifts = self.edges[:-1, None] - self.rows_of(rank, ranks)[0]
        return _ranges((low + shifts).T.reshape(-1), (high + shifts).T.reshape(-1)), bounds

    def positions(self, epoch: int, rank: int, ranks: int) -> np.ndarray:
        """(B,) how many samples of each batch come before the rank's."""
        if self.bucket:
            bounds = self._bucketed(epoch)[1]
            return _share(bounds, rank, ranks)[0] - bounds[:-1]
        return self._divide(np.arange(self.batches) * self.batch_size, rank, ranks)[2] + np.zeros(self.batches, int)

    def padding(self, epoch: int) -> Padding:
        """What padding costs in an epoch, with and without bucketing, in batches that are not divided among ranks."""
        plain = self._plain(epoch), np.minimum(np.arange(self.batches + 1) * self.batch_size, self.samples)
        order, bounds = self._bucketed(epoch) if self.bucket else plain
        return Padding(
            sum(int(lengths[order[: bounds[-1]]].sum()) for lengths in self.lengths),
            sum(int(_padded(lengths[order], bounds).sum()) for lengths in self.lengths),
            sum(int(_padded(lengths[plain[0]], plain[1]).sum()) for lengths in self.lengths),
        )

    def heaviest(self, epoch: int) -> list[int]:
        """The batches that may need the most memory: of most samples, and of most positions of ragged samples."""
        if not self.lengths:
            return [0]
        order, bounds = self.part(epoch)
        positions = sum(_padded(lengths[order], bounds) for lengths in self.lengths)
        return sorted({int(np.argmax(np.diff(bounds))), int(np.argmax(positions))})

    def bucket_index(self, epoch: int, number: int, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The order of the samples of `bucket` batches, the `number`-th of such, by their lengths, and how many samples
        each batch has: sorted, then their batches in random order, so that training does not go from short to long. A
        last, shorter batch is left as it is, so that leaving it out drops nobody for their length."""
        full, rest = divmod(len(lengths), self.batch_size)
        index = np.argsort(lengths[: full * self.batch_size], kind="stable")
        bounds = np.arange(full + 1) * self.batch_size
        if self.balance and full:
            bounds = balanced(lengths[index], full)
        if self.shuffle and full:
            order = bucket_permutation(full, self.seed, epoch, number)
            index, bounds = index[_ranges(bounds[order], bounds[order + 1])], _bounds(np.diff(bounds)[order])
        sizes = np.diff(bounds)
        return np.append(index, np.arange(len(lengths) - rest, len(lengths))), np.append(sizes, [rest][: bool(rest)])

    def _shards(self, epoch: int, shards: range) -> np.ndarray:
        """The orders of some shards, one after the other."""
        edges = self.edges.tolist()
        if not self.shuffle:
            return np.arange(edges[shards.start], edges[shards.stop])
        orders = [self.shard(number).of(epoch) for number in shards]
        return (
            orders[0]
            if self.shards == 1
            else np.concatenate([order + edges[number] for number, order in zip(shards, orders, strict=True)])
        )

    def _plain(self, epoch: int) -> np.ndarray:
        order = self._shards(epoch, range(self.shards))
        return order if self.shards == 1 else order[self.places(0, 1)[0]]

    def _bucketed(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """The samples' numbers in the order of an epoch, and the bounds of the batches among them."""
        plain, width = self._plain(epoch), self.bucket * self.batch_size
        lengths, parts, sizes = np.sum(self.lengths, axis=0), [], []
        for number, start in enumerate(range(0, self.samples, width)):
            part = plain[start : start + width]
            index, counts = self.bucket_index(epoch, number, lengths[part])
            parts.append(part[index])
            sizes.append(counts)
        return np.concatenate(parts), _bounds(np.concatenate(sizes)[: self.batches])


def balanced(lengths: np.ndarray, batches: int) -> np.ndarray:
    """The bounds of batches of about as many values each, and at least one sample, among samples sorted by length.

    Example:
        >>> balanced(np.array([1, 1, 1, 1, 2, 2, 4]), 3)
        array([0, 4, 6, 7])
    """
    values = np.cumsum(lengths)
    shares = values[-1] * np.arange(1, batches) / batches
    inner = np.searchsorted(values - lengths / 2, shares)
    steps = np.arange(1, batches)
    inner = np.maximum.accumulate(np.maximum(inner, steps) - steps) + steps
    inner = np.minimum(inner, len(lengths) - batches + steps)
    return np.concatenate([[0], inner, [len(lengths)]])


def _share(bounds: np.ndarray, rank: int, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Where a rank's part of each batch begins and ends, by the bounds of the batches."""
    sizes = np.diff(bounds)
    return bounds[:-1] + sizes * rank // ranks, bounds[:-1] + sizes * (rank + 1) // ranks


def _bounds(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _ranges(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The whole numbers of several ranges, one after the other."""
    counts = ends - starts
    return np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())


def _padded(lengths: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """(B,) how many positions each batch has when its samples are filled up to the longest."""
    if len(bounds) < 2:
        return np.zeros(0, np.int64)
    return np.maximum.reduceat(lengths, bounds[:-1]) * np.diff(bounds)
