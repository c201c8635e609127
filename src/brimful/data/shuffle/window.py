"""The window shuffle: chunks in random order, rows in random order within a window that slides over the chunks.

Legend: N samples, K chunks of `chunk_rows` consecutive samples (the last may have fewer), the window 2 r + 1 chunks.

An epoch has as many steps as chunks. The chunk that is p-th in the epoch's random order of chunks gives each of its
rows to a step chosen at random from p - r to p + r, as far as there are such. A step's rows come in random order, that
of the full shuffle; so step s needs the chunks from s - r to s + r and no others, and with all chunks in one window the
order is the full shuffle itself. Everything is a pure function of (seed, epoch, chunk rows, window), and of any chunk
by itself: whoever reads chunk by chunk needs no order of all samples.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...core.base.arguments import whole_number
from ...core.base.errors import ConfigError
from ...core.base.formatting import parse_bytes
from .permutation import CHUNKS, ORDER, STEPS, permutation, permutation_on, shuffled, sort_keys
from .philox import Stream


@dataclass(frozen=True, slots=True)
class WindowShuffle:
    """The order of N samples in every epoch.

    Attributes:
        samples: how many there are.
        seed: of all random numbers.
        chunk_rows: samples of a chunk.
        window: chunks within which rows are shuffled; as many as there are, or more, for the full shuffle.
        shard: which of several such orders, for the same seed.
    """

    samples: int
    seed: int
    chunk_rows: int
    window: int
    shard: int = 0

    @property
    def chunks(self) -> int:
        return -(-self.samples // self.chunk_rows)

    @property
    def whole(self) -> bool:
        """Whether it is the full shuffle."""
        return self.window >= self.chunks

    @property
    def reach(self) -> int:
        """How far from its chunk's place a row may come, in chunks."""
        return self.chunks if self.whole else (self.window - 1) // 2

    @property
    def steps(self) -> int:
        return 1 if self.whole else self.chunks

    def of(self, epoch: int) -> np.ndarray:
        """The samples' numbers in the order of an epoch."""
        order = permutation(self.samples, self.seed, epoch, self.shard)
        if self.whole:
            return order
        steps = self._steps(epoch).astype(np.uint16 if self.steps <= 1 << 16 else np.int64)  # 16 bits are sorted faster
        return order[np.argsort(steps[order], kind="stable")]

    def of_on(self, device: torch.device, epoch: int) -> Tensor:
        """The same, made on a device, without waiting for it."""
        order = permutation_on(device, self.samples, self.seed, epoch, self.shard)
        if self.whole:
            return order
        random = (self._stream(epoch, STEPS).words_on(device, self.samples) >> 32) & 0xFFFFFFFF
        first, count = self._spans(epoch)
        spans = torch.from_numpy(np.stack([first, count], 1)).to(device, non_blocking=True)
        spans = spans[torch.arange(self.samples, device=device) // self.chunk_rows]
        steps = spans[:, 0] + ((random * spans[:, 1]) >> 32)
        return order[torch.sort(steps[order], stable=True).indices]

    def chunk_order(self, epoch: int) -> np.ndarray:
        """(K,) the chunks in the order in which they are read."""
        return shuffled(self.chunks, self._stream(epoch, CHUNKS))

    def rows(self, chunk: int) -> tuple[int, int]:
        """The first sample of a chunk, and the one after its last."""
        return chunk * self.chunk_rows, min(self.samples, (chunk + 1) * self.chunk_rows)

    def chunk_steps(self, epoch: int, chunk: int, place: int) -> np.ndarray:
        """The step of each row of a chunk, which is the `place`-th in its order."""
        start, stop = self.rows(chunk)
        if self.whole:
            return np.zeros(stop - start, np.int64)
        first, count = self._span(np.array(place))
        return first + _scaled(self._stream(epoch, STEPS).words(stop - start, start), count)

    def chunk_keys(self, epoch: int, chunk: int) -> np.ndarray:
        """By what the rows of a chunk are sorted among those of their step."""
        return sort_keys(self._stream(epoch, ORDER), self.samples, *self.rows(chunk))

    def _stream(self, epoch: int, use: int) -> Stream:
        return Stream(self.seed, epoch, use, self.shard)

    def _span(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first step of the chunk at a place, and how many it has."""
        first = np.maximum(0, place - self.reach)
        return first, np.minimum(self.chunks, place + self.reach + 1) - first

    def _spans(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """The same, by the numbers of the chunks."""
        place = np.empty(self.chunks, np.int64)
        place[self.chunk_order(epoch)] = np.arange(self.chunks)
        return self._span(place)

    def _steps(self, epoch: int) -> np.ndarray:
        first, count = (np.repeat(part, self.chunk_rows)[: self.samples] for part in self._spans(epoch))
        return first + _scaled(self._stream(epoch, STEPS).words(self.samples), count)


def _scaled(words: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Random numbers from 0 to `count - 1`."""
    words >>= np.uint64(32)
    words *= count.astype(np.uint64)
    words >>= np.uint64(32)
    return words.view(np.int64)


def chunks_of_window(window: int | str | None, samples: int, nbytes: int, chunk_rows: int) -> int:
    """The chunks of a window that is given by its samples or bytes; 0 for one that holds all samples."""
    if window is None:
        return 0
    if isinstance(window, str):
        if (count := parse_bytes(window)) is None:
            raise ConfigError(f'window is {window!r}; give samples, or bytes as a text such as "2GB"')
        window = max(1, count * samples // max(1, nbytes))
    whole_number("window", window, 1)
    chunks = max(1, int(window) // chunk_rows)
    return 0 if window >= samples or chunks * chunk_rows >= samples else chunks
