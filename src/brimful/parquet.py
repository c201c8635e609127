"""Parquet files, and the numbers in Arrow's columns."""

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from .errors import InputError

_GROUP = 4_000_000  # bytes of a row group: larger ones are slower to write, and take more than twice their size


def write(table: pa.Table, path: Path) -> None:
    """Writes a table of measured numbers, which no encoding and no compression makes much smaller: as they are, with
    checksums, they are written some six times as fast."""
    pq.write_table(
        table,
        path,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
        row_group_size=max(1, _GROUP * table.num_rows // max(1, table.nbytes)),
    )
    pa.default_memory_pool().release_unused()


def files(path: Path) -> tuple[list[Path], list[pq.ParquetFile]]:
    """A Parquet file, or all those in a folder, opened; all must have the same columns."""
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path")
    inside = sorted(each for each in path.rglob("*.parquet")) if path.is_dir() else [path]
    if not inside:
        raise InputError(f"{path} holds no .parquet files; name a Parquet file or a folder of them")
    opened = []
    for each in inside:
        try:
            opened.append(pq.ParquetFile(each, memory_map=True))
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{each} cannot be read as Parquet: {error}") from error
    for each, file in zip(inside, opened, strict=True):
        if not file.schema_arrow.equals(opened[0].schema_arrow):
            raise InputError(f"{each} has other columns or types than {inside[0]}; all files must have the same")
    return inside, opened


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    joined = column.combine_chunks()
    if not isinstance(joined, pa.ChunkedArray):
        return joined
    return joined.chunk(0) if joined.num_chunks else pa.array([], joined.type)


def numbers(column: pa.Array) -> tuple[torch.Tensor, np.ndarray]:
    """A column's numbers, and the rows with a null that they cannot show. Fixed-size lists become further axes; a
    column that holds no numbers is a TypeError."""
    rows, shape, nulls = len(column), list[int](), np.array([], np.int64)
    while pa.types.is_fixed_size_list(column.type):
        nulls = np.union1d(nulls, _nulls(column) // math.prod(shape))
        size = column.type.list_size
        column = column.values.slice(column.offset * size, len(column) * size)
        shape.append(size)
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_duration(kind):
        column = column.cast(pa.int64()) if not pa.types.is_date32(kind) else column.cast(pa.int32())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise TypeError
    if column.null_count and not pa.types.is_floating(column.type):
        nulls = np.union1d(nulls, _nulls(column) // math.prod(shape))
        column = column.fill_null(False if pa.types.is_boolean(column.type) else 0)
    values = column.to_numpy(zero_copy_only=False)  # a null among floats becomes NaN
    return torch.from_numpy(values if values.flags.writeable else values.copy()).reshape(rows, *shape), nulls


def _nulls(column: pa.Array) -> np.ndarray:
    if not column.null_count:
        return np.array([], np.int64)
    return np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
