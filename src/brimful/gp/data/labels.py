"""What the data calls its columns and what kind of dates they hold: results are named, typed and drawn by it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.base import arrow
from .long_table import moments

_TAKEN = ("mean", "variance")  # columns of predictions
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")


@dataclass(frozen=True, slots=True)
class Labels:
    """The names and types of columns.

    Attributes:
        id: the column of the task.
        categorical: whether it held categories.
        inputs: the input columns; None where it was no table.
        dates: of each input, Arrow's name of the type of its dates; None where it holds numbers. Empty: no dates.
        target: the column of the target.
    """

    id: str = "task"
    categorical: bool = False
    inputs: tuple[str, ...] | None = None
    dates: tuple[str | None, ...] = ()
    target: str = "y"

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Labels":
        """Those of a store."""
        inputs = None if values["inputs"] is None else tuple(values["inputs"])
        return cls(**values | {"inputs": inputs, "dates": tuple(values["dates"])})

    def date(self, dimension: int) -> str | None:
        """The type of an input's dates; None where it holds numbers."""
        return self.dates[dimension] if dimension < len(self.dates) else None

    def input_names(self, dimensions: int) -> tuple[str, ...]:
        """What input columns are called in results: as they were, unless a result has that name."""
        plain = ("x",) if dimensions == 1 else tuple(f"x_{position}" for position in range(dimensions))
        if self.inputs is None or not {self.id, *_TAKEN}.isdisjoint(self.inputs):
            return plain
        return self.inputs

    def id_name(self, others: Sequence[str]) -> str:
        """What the column of the task is called beside these."""
        return "task" if self.id in others else self.id

    def id_column(self, ids: pa.Array) -> pa.Array:
        """The tasks' names as the data had them."""
        return ids.dictionary_encode() if self.categorical else ids


def dated(days_N: np.ndarray, kind: str | None) -> pa.Array:
    """Inputs for a result: numbers, or dates of that type where nothing of them is lost in it."""
    if kind is None:
        return arrow.array_of(days_N)
    there = moments(days_N)
    timestamp = _TIMESTAMP.fullmatch(kind)
    if timestamp:
        unit, zone = timestamp.groups()
        finest = pc.cast(there, pa.timestamp("us"))
        wanted = pa.timestamp("us" if unit in ("s", "ms") and _finer(finest, unit) else unit)
        result = pc.cast(finest, wanted)
        return result if zone is None else pc.cast(result, pa.timestamp(wanted.unit, zone))
    return pc.cast(there, pa.date64()) if kind.startswith("date64") and pa.types.is_date(there.type) else there


def _finer(there: pa.Array, unit: str) -> bool:
    """Whether dates have a part that the unit cannot hold."""
    step = {"s": 1_000_000, "ms": 1_000}[unit]
    return bool((arrow.numpy_of(pc.fill_null(pc.cast(there, pa.int64()), 0)) % step).any())
