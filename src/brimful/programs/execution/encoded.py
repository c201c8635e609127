"""The encoded results of many samples, one after the other in one array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """The bytes of some samples.

    Attributes:
        flat: of all samples.
        offsets: (N + 1,) where each begins, and the last one ends.
    """

    flat: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, samples: Sequence[bytes]) -> Self:
        """Of samples that were encoded one by one."""
        flat = np.frombuffer(bytearray().join(samples), np.uint8)
        return cls(flat, np.cumsum([0, *map(len, samples)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, at: int) -> bytes:
        return self.flat[self.offsets[at] : self.offsets[at + 1]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return (self[at] for at in range(len(self)))

    @classmethod
    def joined(cls, parts: Sequence[Encoded]) -> Self:
        """The samples of several, one after the other."""
        bases = np.cumsum([0, *(len(part.flat) for part in parts)])
        offsets = [part.offsets[:-1] + base for part, base in zip(parts, bases[:-1], strict=True)]
        return cls(np.concatenate([part.flat for part in parts]), np.concatenate([*offsets, bases[-1:]]))
