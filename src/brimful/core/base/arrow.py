"""Arrow columns as tensors, and tensors as Arrow columns that read back to the same bits."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from . import pytree
from .errors import InputError
from .ragged import Ragged
from .rows import Leaf, rows_of

OWN = ("item", "status", "message")
"""The columns that a table of results keeps for itself."""

_META = b"brimful.tensors"


def to_columns(values: pytree.Tree) -> tuple[dict[str, pa.Array], bytes]:
    """A tree of host tensors as named columns, and the note from which `from_columns` rebuilds the tree.

    A single tensor is the column `value`, a tuple's parts are `value_0`, `value_1`; a dict's keep their names. Samples
    of unequal length are lists, or bytes where their values are (uint8, one axis); both with 64-bit offsets, so that
    their size never changes the schema.
    """
    columns, notes = {}, []
    for name, leaf in pytree.row_leaves(values):
        column = _column_name(name, values)
        if column in OWN:
            raise InputError(f"the result has a part named {column!r}, a name the table keeps for itself; rename it")
        part = rows_of(leaf)
        dtype, shape = part.form
        columns[column] = _array(part.elements, part.offsets)
        notes.append([column, dtype.removeprefix("torch."), shape])
    return columns, json.dumps({"form": _form(values), "columns": notes}).encode()


def schema_note(note: bytes, **more: str) -> dict[bytes, bytes]:
    """Schema metadata that carries the note, and more."""
    return {_META: note, **{f"brimful.{key}".encode(): value.encode() for key, value in more.items()}}


def note_of(schema: pa.Schema) -> bytes:
    """The note that the schema of a table carries; empty when it holds no tensors."""
    return (schema.metadata or {}).get(_META, b"")


def from_columns(table: pa.Table) -> pytree.Tree:
    """The tree that `to_columns` took apart."""
    note = json.loads(note_of(table.schema))
    parts: dict[str, Leaf] = {}
    for name, dtype, shape in note["columns"]:
        column, kind = whole(table[name]), getattr(torch, dtype)
        if shape and shape[0] is None:
            parts[name] = _ragged(column, kind, shape[1:])
        else:
            parts[name] = _tensor(column, kind).reshape(table.num_rows, *shape)
    return _rebuild(note["form"], parts)


def _tensor(column: pa.Array, dtype: torch.dtype) -> torch.Tensor:
    """All numbers of a column, one after the other."""
    while pa.types.is_fixed_size_list(column.type):
        column = column.flatten()
    values = numpy_of(column)
    tensor = torch.from_numpy(values if values.flags.writeable else values.copy())
    return (torch.view_as_complex(tensor.reshape(-1, 2)) if dtype.is_complex else tensor).to(dtype)


def _ragged(column: Any, dtype: torch.dtype, shape: list[int]) -> Ragged:
    """The samples of a column of lists or of bytes."""
    if pa.types.is_large_binary(column.type):
        _, ends, content = column.buffers()
        offsets = np.frombuffer(ends, np.int64)[column.offset : column.offset + len(column) + 1]
        values = np.frombuffer(content or b"", np.uint8)[offsets[0] : offsets[-1]]
        return Ragged(torch.from_numpy(values.copy()), torch.from_numpy(offsets - offsets[0]))
    offsets = numpy_of(column.offsets)
    width = math.prod(shape) * (2 if dtype.is_complex else 1)
    values = _tensor(column.flatten(), dtype).reshape(-1, *shape)
    return Ragged(values, torch.from_numpy((offsets - offsets[0]) // width))


def _column_name(name: str, values: pytree.Tree) -> str:
    if isinstance(values, Mapping):
        return name
    return f"value_{name}" if name else "value"


def _array(tensor: torch.Tensor, offsets: torch.Tensor | None) -> pa.Array:
    """Numbers as a column; with offsets, as lists of unequal length, or as bytes where they are bytes."""
    if offsets is not None and tensor.ndim == 1 and tensor.dtype == torch.uint8:
        buffers = [None, *(pa.py_buffer(part.contiguous().numpy()) for part in (offsets, tensor))]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()  # exact; Parquet has no bfloat16
    flat: Any = array_of(tensor.contiguous().reshape(-1).numpy())
    if tensor.ndim == 1 and offsets is None:
        return flat
    width = math.prod(tensor.shape[1:])
    if width == 0:
        raise InputError(f"a result of shape {tuple(tensor.shape)} holds nothing; return at least one number per item")
    # One level of lists whatever the shape: Parquet writes nested ones at half the speed. The note has the shape.
    element = pa.field("element", flat.type, nullable=False)
    if offsets is None:
        return pa.FixedSizeListArray.from_arrays(flat, type=pa.list_(element, width))
    starts: Any = array_of((offsets * width).numpy())
    return pa.LargeListArray.from_arrays(starts, flat, type=pa.large_list(element))


def _form(values: pytree.Tree, name: str = "", root: pytree.Tree | None = None) -> Any:
    root = values if root is None else root
    prefix = f"{name}." if name else ""
    match values:
        case torch.Tensor() | Ragged():
            return _column_name(name, root)
        case Mapping():
            return {"dict": {str(key): _form(part, f"{prefix}{key}", root) for key, part in values.items()}}
    return {"tuple": [_form(part, f"{prefix}{index}", root) for index, part in enumerate(values)]}


def _rebuild(form: Any, parts: dict[str, Leaf]) -> pytree.Tree:
    if isinstance(form, str):
        return parts[form]
    if "dict" in form:
        return {key: _rebuild(part, parts) for key, part in form["dict"].items()}
    return tuple(_rebuild(part, parts) for part in form["tuple"])


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
    values = numpy_of(column)  # a null among floats becomes NaN
    return torch.from_numpy(values if values.flags.writeable else values.copy()).reshape(rows, *shape), nulls


def array_of(values: np.ndarray) -> pa.Array:
    """Numbers in one axis as a column, in their own memory where they are contiguous. `pyarrow.array` would import
    pandas, where it is installed: half a second, and 40 MB."""
    values = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(values.dtype)
    packed = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else values
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(packed)])


def numpy_of(column: pa.Array) -> np.ndarray:
    """A column's numbers, which cannot be written to; a null among floats is NaN. `to_numpy` would import pandas."""
    kind, start, stop = column.type, column.offset, column.offset + len(column)
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if column.null_count or not plain:
        return column.to_numpy(zero_copy_only=False)
    buffer = column.buffers()[1] or b""
    if pa.types.is_boolean(kind):
        values = np.unpackbits(np.frombuffer(buffer, np.uint8), count=stop, bitorder="little")[start:].view(bool)
    else:
        values = np.frombuffer(buffer, kind.to_pandas_dtype())[start:stop]
    values.flags.writeable = False
    return values


def text_array(texts: Sequence[str | None]) -> pa.Array:
    """Texts as a column, likewise."""
    encoded = [b"" if text is None else text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    there = np.packbits(np.array([text is not None for text in texts], bool), bitorder="little")
    buffers = [pa.py_buffer(part) for part in (there, offsets, b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(texts), buffers).cast(pa.string())


def _nulls(column: pa.Array) -> np.ndarray:
    if not column.null_count:
        return np.array([], np.int64)
    return np.flatnonzero(numpy_of(column.is_null()))
