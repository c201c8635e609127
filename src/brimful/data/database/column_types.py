"""Fields as columns of a table: which type each dtype has there, and the bytes of a row as COPY moves them.

All columns are of fixed length and hold no NULL, so that all rows are equally long in PostgreSQL's binary format: many
rows are one structured NumPy array, and nothing is converted value by value.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...core.base.errors import InputError, raise_first
from ..dataset import Field, Fields

ROW = "row_id"
"""The column that numbers the rows: its order is theirs."""

_COUNT, _LENGTH = ">i2", ">i4"


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A type of PostgreSQL's: its name, that of its number, and of a value in binary format."""

    name: str
    oid: int
    wire: str


_REAL, _DOUBLE = ColumnType("real", 700, ">f4"), ColumnType("double precision", 701, ">f8")
_SMALL, _INTEGER, _BIG = (
    ColumnType("smallint", 21, ">i2"),
    ColumnType("integer", 23, ">i4"),
    ColumnType("bigint", 20, ">i8"),
)
_BYTES = ColumnType("bytea", 17, "u1")
_TYPES: dict[torch.dtype, ColumnType] = {
    torch.float32: _REAL,
    torch.float16: _REAL,  # exact, as the next
    torch.bfloat16: _REAL,
    torch.float64: _DOUBLE,
    torch.int8: _SMALL,
    torch.uint8: _SMALL,
    torch.int16: _SMALL,
    torch.uint16: _INTEGER,
    torch.int32: _INTEGER,
    torch.uint32: _BIG,
    torch.int64: _BIG,
    torch.bool: ColumnType("boolean", 16, "?"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A field as a column: a number, or an array of one length; bytes (uint8, with axes) are a bytea."""

    name: str
    field: Field

    @property
    def width(self) -> int:
        return math.prod(self.field.shape)

    @property
    def raw(self) -> bool:
        return bool(self.field.shape) and self.field.dtype == torch.uint8

    @property
    def type(self) -> ColumnType:
        return _BYTES if self.raw else _TYPES[self.field.dtype]

    @property
    def sql_type(self) -> str:
        return self.type.name + ("[]" if self.field.shape and not self.raw else "")

    def check(self, quoted: str) -> str | None:
        """The condition that all its values fulfil."""
        if self.raw:
            return f"octet_length({quoted}) = {self.width}"
        return f"array_ndims({quoted}) = 1 AND array_length({quoted}, 1) = {self.width}" if self.field.shape else None

    def part(self) -> list[tuple[Any, ...]]:
        """Its part of the structured type of a row."""
        if self.raw:
            return [(f"l_{self.name}", _LENGTH), (f"v_{self.name}", "u1", (self.width,))]
        if not self.field.shape:
            return [(f"l_{self.name}", _LENGTH), (f"v_{self.name}", self.type.wire)]
        element = np.dtype([("l", _LENGTH), ("v", self.type.wire)])
        return [
            (f"l_{self.name}", _LENGTH),
            (f"h_{self.name}", ">i4", (5,)),
            (f"v_{self.name}", element, (self.width,)),
        ]

    def head(self) -> list[int]:
        """What stands before the values of an array: one axis, no NULLs, the element's type, the length, from 1."""
        return [1, 0, self.type.oid, self.width, 1]

    def total(self) -> int:
        size = np.dtype(self.type.wire).itemsize
        return self.width * size if self.raw or not self.field.shape else 20 + self.width * (4 + size)


def columns_of(fields: Mapping[str, Field], where: str = "the source") -> list[Column]:
    """The columns of some fields.

    Raises:
        InputError: a field has no column type, or a name that no column can have.
    """
    for name, field in fields.items():
        this, bad_name = f"{where}: field {name!r}", not 0 < len(name.encode()) <= 63 or "\0" in name or name == ROW
        raise_first(
            (
                (field.lengths is not None, f"{this} has samples of unequal length; pad them, a column has one length"),
                (field.dtype not in _TYPES, f"{this} is {field.dtype}, for which there is no column; convert it first"),
                (not math.prod(field.shape), f"{this} has shape {field.shape}, which holds nothing; leave it out"),
                (bad_name, f"{this} cannot be the name of a column; rename it (1 to 63 bytes, and not {ROW!r})"),
            )
        )
    return [Column(name, field) for name, field in fields.items()]


def row_type(columns: list[Column], numbered: bool = False) -> np.dtype:
    """A row in binary format; `numbered` ones begin with their number."""
    number = [(f"l {ROW}", _LENGTH), (f"v {ROW}", ">i8")] if numbered else []
    return np.dtype([("count", _COUNT), *number, *(part for column in columns for part in column.part())])


def to_rows(columns: list[Column], fields: Fields, start: int) -> Any:
    """Rows in binary format, numbered from `start`."""
    count = len(next(iter(fields.values())))
    rows: Any = np.empty(count, row_type(columns, numbered=True))
    rows["count"] = len(columns) + 1
    rows[f"l {ROW}"], rows[f"v {ROW}"] = 8, np.arange(start, start + count)
    for column in columns:
        tensor = fields[column.name].reshape(count, -1)
        values = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
        rows[f"l_{column.name}"] = column.total()
        part = rows[f"v_{column.name}"]
        if column.field.shape and not column.raw:
            rows[f"h_{column.name}"] = column.head()
            part["l"], part["v"] = np.dtype(column.type.wire).itemsize, values
        else:
            part[...] = values if column.raw else values[:, 0]
    return rows


def from_rows(columns: list[Column], body: Any, count: int, start: int, where: str) -> Fields:
    """The fields of rows in binary format.

    Raises:
        InputError: a row is not of the form that the columns say; `start` is the number of the first one.
    """
    kind = row_type(columns)
    whole = len(body) // kind.itemsize
    rows: Any = np.frombuffer(body[: whole * kind.itemsize], kind)
    good = np.ones(len(rows), bool)
    for column in columns:
        good &= rows[f"l_{column.name}"] == column.total()
        if column.field.shape and not column.raw:
            good &= (rows[f"h_{column.name}"] == column.head()).all(1)
            size = np.dtype(column.type.wire).itemsize
            good &= (rows[f"v_{column.name}"]["l"] == size).all(1)
    if len(body) != count * kind.itemsize or not good.all():
        bad = int(np.argmin(good)) if not good.all() else whole
        raise InputError(
            f"{where}: row {start + bad} has a NULL, or an array of another length or type than the dataset's columns; "
            "mend the row"
        )
    return {column.name: _values(column, rows[f"v_{column.name}"]) for column in columns}


def _values(column: Column, part: Any) -> torch.Tensor:
    values = part["v"] if column.field.shape and not column.raw else part
    native = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("="), copy=False)
    tensor = torch.from_numpy(native if native.flags.writeable else native.copy())
    return tensor.to(column.field.dtype).reshape(len(part), *column.field.shape)
