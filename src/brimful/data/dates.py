"""Dates in Arrow columns: their types, those written as texts, and days as numbers."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def is_moment(kind: pa.DataType) -> bool:
    """Whether a column of that kind holds dates."""
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of that kind holds texts."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def parsed(texts: Any) -> Any:
    """Dates written as ISO 8601 texts, such as 2024-01-31 or 2024-01-31T12:30; those with an offset in UTC.

    Raises:
        pa.ArrowInvalid: a text is not a date.
    """
    if pa.types.is_string_view(texts.type):  # as polars has them; they cannot become dates
        texts = pc.cast(texts, pa.large_string())
    try:
        return pc.cast(texts, pa.timestamp("us"))
    except pa.ArrowInvalid:
        return pc.cast(texts, pa.timestamp("us", "UTC"))


def microseconds(moments: Any) -> Any:
    """Since 1970-01-01, as whole numbers."""
    return pc.cast(pc.cast(moments, pa.timestamp("us"), safe=False), pa.int64())


def days(moments: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Days since 1970-01-01, which are near enough to 1."""
    return pc.cast(microseconds(moments), pa.float64(), safe=False).to_numpy(zero_copy_only=False) / 86_400e6
