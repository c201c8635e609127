"""Arrow tables, data frames and Parquet files as fields: numbers are columns, lists of unequal length are ragged.

Parquet is read one row group at a time. It has no access to single rows, so to be read by index it is read whole.
"""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import torch

from ..core.base import arrow
from ..core.base.errors import BrimfulWarning, InputError
from ..core.runs import fingerprint, parquet
from .array_dataset import ArrayDataset, DeferredDataset
from .dataset import Field, Fields, chosen, collect, null_error
from .ragged import by_lengths


def table_dataset(table: pa.Table, columns: Sequence[str] | None) -> ArrayDataset:
    """A table in memory."""
    fields = _fields(table.schema, columns, "the table", lambda name: [arrow.whole(table[name])])
    return ArrayDataset(*_convert(table, fields))


class ParquetDataset(DeferredDataset):
    """A Parquet file, or a folder of them. The form comes from the schema, the lengths of lists from one pass over
    their columns."""

    sequential = on_disk = True

    def __init__(self, path: Path, columns: Sequence[str] | None) -> None:
        self._path, self._columns = path.absolute(), columns  # absolute: a process elsewhere opens it too
        self._paths, files = parquet.files(path)
        self.paths = [str(file.absolute()) for file in self._paths]
        self._schema = files[0].schema_arrow
        self._groups = [(file, group) for file in files for group in range(file.num_row_groups)]
        rows = [file.metadata.row_group(group).num_rows for file, group in self._groups]
        self._starts = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])
        self._last: tuple[int, pa.Table] | None = None
        fields = _fields(self._schema, columns, str(path), self._lists)
        super().__init__(fields, int(self._starts[-1]), lambda: self._columns_of(fields))

    def __reduce__(self) -> tuple[Any, ...]:
        return ParquetDataset, (self._path, self._columns)

    @property
    def group_rows(self) -> int:
        """Rows of its largest row group, which is what is read at once."""
        return int(np.diff(self._starts).max(initial=1))

    def load(self, rows: slice | np.ndarray) -> tuple[Fields, dict[int, str]]:
        if not isinstance(rows, slice):
            return super().load(rows)
        first, last = np.searchsorted(self._starts, [rows.start, rows.stop - 1], side="right") - 1
        parts = []
        for group in range(first, last + 1):
            start = int(self._starts[group])
            parts.append(self._group(group).slice(max(0, rows.start - start), rows.stop - max(start, rows.start)))
        table = pa.concat_tables(parts) if parts else self._schema.empty_table()
        return _convert(table, self.fields)

    def _group(self, group: int) -> pa.Table:
        if self._last is None or self._last[0] != group:
            self._last = (group, self._read_group(group, list(self.fields)))
        return self._last[1]

    def _read_group(self, group: int, names: list[str]) -> pa.Table:
        file, number = self._groups[group]
        try:
            return file.read_row_group(number, columns=names)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self._path} cannot be read: {error}. It may be damaged; write it again") from error

    def _lists(self, name: str) -> Iterator[Any]:
        return (arrow.whole(self._read_group(group, [name])[name]) for group in range(len(self._groups)))

    def column(self, name: str) -> Any:
        return self._columns_of({name: self.fields[name]})[name]

    def _columns_of(self, fields: dict[str, Field]) -> Fields:
        """All rows of some columns, none of which may hold a null."""
        return collect(fields, len(self), self._converted(fields), torch.device("cpu"))

    def _converted(self, fields: dict[str, Field]) -> Iterator[Fields]:
        for group, start in enumerate(self._starts[:-1].tolist()):
            part, bad = _convert(self._read_group(group, list(fields)), fields)
            for row, reason in bad.items():
                raise null_error(reason, start + row)
            yield part

    def fingerprint(self) -> str:
        named = [part for path in self._paths for part in (path.name, path)]
        return fingerprint.of(named if self._columns is None else [named, list(self._columns)])


def _fields(schema: pa.Schema, columns: Sequence[str] | None, where: str, lists: Any) -> dict[str, Field]:
    """The forms of the columns that hold numbers. `lists` gives the arrays of a column of lists, for their lengths."""
    fields, skipped = {}, []
    for name in chosen(schema.names, columns, where):
        kind: Any = schema.field(name).type
        listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        if columns is None and _is_date(kind.value_type if listed else kind):
            skipped.append(name)
            continue
        try:
            values, _ = arrow.numbers(pa.array([], kind.value_type if listed else kind))
        except (TypeError, NotImplementedError, pa.ArrowException):
            skipped.append(name)
            continue
        shape, lengths = tuple(values.shape[1:]), None
        if listed:
            lengths = np.concatenate([np.zeros(0, np.int64), *(_list_lengths(column) for column in lists(name))])
            if len(lengths) and (lengths == lengths[0]).all():
                shape, lengths = (int(lengths[0]), *shape), None
        fields[name] = Field(values.dtype, shape, lengths)
    left_out = ", ".join(skipped)
    if skipped and columns is not None:
        raise InputError(f"{where}: the columns {left_out} hold no numbers; turn them into numbers first")
    if not fields:
        raise InputError(f"{where}: none of the columns {left_out} holds numbers; a batch is made of tensors")
    if skipped:
        warnings.warn(
            f"columns that are not numbers are left out of the batch: {left_out}", BrimfulWarning, stacklevel=4
        )
    return fields


def _is_date(kind: Any) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_duration(kind)


def _list_lengths(column: Any) -> np.ndarray:
    return compute.call_function("list_value_length", [column]).fill_null(0).to_numpy().astype(np.int64)


def _convert(table: pa.Table, fields: dict[str, Field]) -> tuple[Fields, dict[int, str]]:
    """The columns of some rows, and the reason for each row that holds a null for which there is no NaN."""
    converted, bad = {}, {}
    for name, field in fields.items():
        column: Any = arrow.whole(table[name])
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            converted[name], nulls = arrow.numbers(column)
        else:
            values, nulls = arrow.numbers(column.flatten())
            lengths = _list_lengths(column)
            inside = np.searchsorted(np.cumsum(lengths), nulls, side="right")
            nulls = np.union1d(inside, np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)))
            converted[name] = (
                values.reshape(len(column), *field.shape) if field.lengths is None else by_lengths(values, lengths)
            )
        for row in nulls.tolist():
            bad.setdefault(row, f"column {name!r} is null")
    return converted, bad
