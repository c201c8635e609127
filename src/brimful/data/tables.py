"""Parquet as fields: numbers are columns, lists of unequal length are ragged. Read a row group at a time, kept whole:
Parquet has no way to one row."""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from ..core.base import arrow
from ..core.base.errors import BrimfulWarning, InputError
from ..core.runs import parquet
from .columns import Deferred
from .ragged import Ragged
from .rows import Field, chosen, some


def parquet_rows(path: Path, columns: Sequence[str] | None) -> Deferred:
    """A Parquet file, or a folder of them. The form comes from the schema, the lengths of lists from one look at their
    columns."""
    _, files = parquet.files(path)
    samples = some(sum(file.metadata.num_rows for file in files), str(path))
    fields, skipped = {}, []
    for name in chosen(files[0].schema_arrow.names, columns, str(path)):
        try:
            fields[name] = _field(files, name, files[0].schema_arrow.field(name).type)
        except TypeError:
            skipped.append(name)
    if skipped and columns is not None:
        raise InputError(f"{path}: the columns {', '.join(skipped)} hold no numbers; turn them into numbers first")
    if not fields:
        raise InputError(f"{path}: none of the columns {', '.join(skipped)} holds numbers; a batch is made of tensors")
    if skipped:
        warnings.warn(
            f"columns that are not numbers are left out of the batch: {', '.join(skipped)}",
            BrimfulWarning,
            stacklevel=3,
        )
    return Deferred(fields, samples, lambda: _read(path, files, fields, samples), dict)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def _field(files: Sequence[pq.ParquetFile], name: str, kind: pa.DataType) -> Field:
    inner: Any = kind.value_type if _is_list(kind) else kind
    values, _ = arrow.numbers(pa.array([], inner))
    shape = tuple(values.shape[1:])
    if not _is_list(kind):
        return Field(values.dtype, shape)
    counts = [_list_lengths(name, arrow.whole(table[name])) for _, table in _groups(files, [name])]
    lengths = np.concatenate(counts)
    if (lengths == lengths[0]).all():
        return Field(values.dtype, (int(lengths[0]), *shape))
    return Field(values.dtype, shape, lengths)


def _list_lengths(name: str, column: Any) -> np.ndarray:
    if column.null_count:
        raise InputError(f"column {name!r} has nulls among its lists; fill them with empty lists, or drop those rows")
    return np.diff(column.offsets.to_numpy()).astype(np.int64)


def _groups(files: Sequence[pq.ParquetFile], names: list[str]) -> Iterator[tuple[int, pa.Table]]:
    """The row groups that hold rows, each with the number of its first row."""
    start = 0
    for file in files:
        for group in range(file.num_row_groups):
            if rows := file.metadata.row_group(group).num_rows:
                yield start, file.read_row_group(group, columns=names)
            start += rows


def _read(path: Path, files: Sequence[pq.ParquetFile], fields: dict[str, Field], samples: int) -> dict[str, Any]:
    found, filled = {}, dict.fromkeys(fields, 0)
    for name, field in fields.items():
        rows = samples if field.lengths is None else int(field.lengths.sum())
        found[name] = torch.empty((rows, *field.shape), dtype=field.dtype)
    try:
        for start, table in _groups(files, list(fields)):
            for name, field in fields.items():
                values = _values(name, arrow.whole(table[name]), start)
                count = table.num_rows if field.lengths is None else len(values)
                found[name][filled[name] : filled[name] + count] = values.reshape(count, *field.shape)
                filled[name] += count
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}. It may be damaged; write it again") from error
    return {name: _finished(found[name], field) for name, field in fields.items()}


def _values(name: str, column: pa.Array, start: int) -> torch.Tensor:
    lists = _is_list(column.type)
    values, nulls = arrow.numbers(column.flatten() if lists else column)
    if len(nulls):
        where = "" if lists else f", the first in row {start + int(nulls[0])}"
        raise InputError(f"column {name!r} has nulls{where}, and its numbers have no NaN; fill them or drop those rows")
    return values


def _finished(values: torch.Tensor, field: Field) -> Any:
    if field.lengths is None:
        return values
    return Ragged(values, torch.from_numpy(np.concatenate([[0], np.cumsum(field.lengths)])))
