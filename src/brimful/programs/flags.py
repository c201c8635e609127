"""What became of every candidate on some samples: status, failing step, category and whether it is the target.

Legend: n samples, K candidate outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

_NAMES = ("status", "step", "category", "equal")
_STORED = dict(zip(("outcome", "step", "category", "equal"), _NAMES, strict=True))
"""How `SampleFunction` calls them."""

_CODEC = "zstd"


@dataclass(frozen=True, slots=True, eq=False)
class Flags:
    """Those of one part of the samples.

    Attributes:
        start: the index of its first sample.
        status: (n, K) `ProgramStatus`.
        step: (n, K) the first step of the program that failed, -1 where none did.
        category: (n, K) how it failed.
        equal: (n, K) 1 where the output is the target, 0 where not, -1 where the target is not known.
    """

    start: int
    status: np.ndarray
    step: np.ndarray
    category: np.ndarray
    equal: np.ndarray

    @classmethod
    def of(cls, start: int, values: Mapping[str, Any]) -> Self:
        """What `SampleFunction` returned for samples."""
        return cls(start, **{name: np.asarray(values[stored]) for stored, name in _STORED.items()})

    @classmethod
    def nothing(cls, start: int, samples: int, candidates: int) -> Self:
        """Of samples that could not be run."""
        return cls(start, *np.zeros((len(_NAMES), samples, candidates), np.int8))

    def __len__(self) -> int:
        return len(self.status)

    @property
    def stop(self) -> int:
        """The index after its last sample."""
        return self.start + len(self)

    def rows(self, index: list[int]) -> Self:
        """Those of some of its samples."""
        return type(self)(self.start, *(getattr(self, name)[index] for name in _NAMES))


def joined(parts: list[Flags]) -> Flags:
    """Several as one."""
    if len(parts) == 1:
        return parts[0]
    return Flags(parts[0].start, *(np.concatenate([getattr(part, name) for part in parts]) for name in _NAMES))


class PackedFlags:
    """Flags that take little memory: most rows of them are alike."""

    def __init__(self, flags: Flags) -> None:
        self._start = flags.start
        self._arrays = [
            (array.shape, array.dtype, pa.compress(np.ascontiguousarray(array), codec=_CODEC, asbytes=True))
            for array in (getattr(flags, name) for name in _NAMES)
        ]

    def unpacked(self) -> Flags:
        """As they were."""
        arrays = []
        for shape, kind, packed in self._arrays:
            size = int(np.prod(shape)) * kind.itemsize
            content = pa.decompress(packed, decompressed_size=size, codec=_CODEC, asbytes=True)
            arrays.append(np.frombuffer(content, kind).reshape(shape))
        return Flags(self._start, *arrays)
