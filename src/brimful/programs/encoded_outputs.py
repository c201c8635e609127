"""The outputs of programs as bytes: where each of them is, so that one can be read without the others.

Legend: N samples, K candidate outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from ..core.base.errors import CorruptError
from ..data.ragged import Ragged
from .batched.compiled import on_host
from .batched.loops import outputs as loops
from .execution.encoding import decode
from .language.program import Program


@dataclass(frozen=True, slots=True, eq=False)
class EncodedOutputs:
    """The candidate outputs of some samples.

    Attributes:
        flat: the bytes of all samples.
        starts, ends: (N, K) where an output is among them; both 0 where there is none.
    """

    flat: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, programs: Sequence[Program], values: Ragged) -> Self:
        """What programs returned for samples."""
        flat, offsets = values.values.numpy(), values.offsets.numpy()
        first = np.cumsum([0, *(len(program.outputs) for program in programs)])
        starts, ends, damaged = on_host(loops.output_spans)(flat, offsets, first)
        if damaged >= 0:
            raise CorruptError(f"the results of sample {damaged} of a part are damaged; run it again")
        return cls(flat, starts, ends)

    def encoded(self, sample: int, column: int) -> bytes:
        """The bytes of an output; none where there is no output."""
        return self.flat[self.starts[sample, column] : self.ends[sample, column]].tobytes()

    def value(self, sample: int, column: int) -> Any:
        """An output; None where there is none."""
        encoded = self.encoded(sample, column)
        return decode(encoded) if encoded else None

    def blocks(self, size: int) -> Iterator[slice]:
        """Samples in blocks of about so many bytes of outputs; a sample with more is a block of its own."""
        ends = np.cumsum((self.ends - self.starts).sum(axis=1))
        first = 0
        while first < len(ends):
            before = ends[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(ends, before + size, side="right")))
            yield slice(first, last)
            first = last

    def grids(self, samples: np.ndarray, columns: np.ndarray, most: int) -> tuple[pa.Array, np.ndarray, np.ndarray]:
        """Some outputs as lists of rows of numbers.

        Args:
            most: how many cells a grid has at most.

        Returns:
            The lists, null where an output is no grid, or one with more cells; and the rows and cells of each output
            that is a grid, however many it has: -1 rows for others.
        """
        starts, ends = self.starts[samples, columns], self.ends[samples, columns]
        rows, cells = on_host(loops.grid_sizes)(self.flat, starts, ends)
        shown = np.where(cells > most, -1, rows)
        row_ends = np.zeros(int(shown.clip(0).sum()) + 1, np.int32)
        flat = np.zeros(int(cells[shown >= 0].sum()), np.int16)
        on_host(loops.write_grids)(self.flat, starts, ends, shown, row_ends[1:], flat)
        lines = pa.ListArray.from_arrays(pa.array(row_ends), pa.array(flat))
        offsets = np.concatenate([[0], np.cumsum(shown.clip(0))]).astype(np.int32)
        grids = pa.ListArray.from_arrays(pa.array(offsets, mask=np.append(shown < 0, False)), lines)
        return grids, rows, cells
