"""Arrow columns as tensors, and tensors as Arrow columns that read back to the same bits."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from . import pytree
from .errors import InputError

OWN = ("item", "status", "message")
"""The columns that a table of results keeps for itself."""

_META = b"brimful.tensors"


def to_columns(values: pytree.Tree) -> tuple[dict[str, pa.Array], bytes]:
    """A tree of host tensors as named columns, and the note from which `from_columns` rebuilds the tree.

    A single tensor is the column `value`, a tuple's parts are `value_0`, `value_1`; a dict's keep their names.
    """
    columns, notes = {}, []
    for name, tensor in pytree.leaves(values):
        column = _column_name(name, values)
        if column in OWN:
            raise InputError(f"the result has a part named {column!r}, a name the table keeps for itself; rename it")
        columns[column] = _array(tensor)
        notes.append([column, str(tensor.dtype).removeprefix("torch."), list(tensor.shape[1:])])
    return columns, json.dumps({"form": _form(values), "columns": notes}).encode()


def schema_note(note: bytes, **more: str) -> dict[bytes, bytes]:
    """Schema metadata that carries the note, and more."""
    return {_META: note, **{f"brimful.{key}".encode(): value.encode() for key, value in more.items()}}


def note_of(table: pa.Table) -> bytes:
    """The note that a table carries; empty when it holds no tensors."""
    return (table.schema.metadata or {}).get(_META, b"")


def from_columns(table: pa.Table) -> pytree.Tree:
    """The tree that `to_columns` took apart."""
    note = json.loads(note_of(table))
    tensors = {}
    for name, dtype, shape in note["columns"]:
        column = whole(table[name])
        while pa.types.is_fixed_size_list(column.type):
            column = column.flatten()
        values = column.to_numpy(zero_copy_only=False)
        tensor = torch.from_numpy(values if values.flags.writeable else values.copy())
        kind = getattr(torch, dtype)
        if kind.is_complex:
            tensor = torch.view_as_complex(tensor.reshape(-1, 2))
        tensors[name] = tensor.reshape(table.num_rows, *shape).to(kind)
    return _rebuild(note["form"], tensors)


def _column_name(name: str, values: pytree.Tree) -> str:
    if isinstance(values, Mapping):
        return name
    return f"value_{name}" if name else "value"


def _array(tensor: torch.Tensor) -> pa.Array:
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()  # exact; Parquet has no bfloat16
    flat: Any = pa.array(tensor.contiguous().reshape(-1).numpy())
    if tensor.ndim == 1:
        return flat
    width = math.prod(tensor.shape[1:])
    if width == 0:
        raise InputError(f"a result of shape {tuple(tensor.shape)} holds nothing; return at least one number per item")
    # One level of lists whatever the shape: Parquet writes nested ones at half the speed. The note has the shape.
    return pa.FixedSizeListArray.from_arrays(flat, type=pa.list_(pa.field("element", flat.type, nullable=False), width))


def _form(values: pytree.Tree, name: str = "", root: pytree.Tree | None = None) -> Any:
    root = values if root is None else root
    prefix = f"{name}." if name else ""
    match values:
        case torch.Tensor():
            return _column_name(name, root)
        case Mapping():
            return {"dict": {str(key): _form(part, f"{prefix}{key}", root) for key, part in values.items()}}
    return {"tuple": [_form(part, f"{prefix}{index}", root) for index, part in enumerate(values)]}


def _rebuild(form: Any, tensors: dict[str, torch.Tensor]) -> pytree.Tree:
    if isinstance(form, str):
        return tensors[form]
    if "dict" in form:
        return {key: _rebuild(part, tensors) for key, part in form["dict"].items()}
    return tuple(_rebuild(part, tensors) for part in form["tuple"])


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
