"""A short digest of some data, equal exactly when the data is: how a resumed run knows its input again.

Content is hashed, not dates or names, in pieces on several threads: about 1.3 GB/s for each core.
"""

import contextlib
import functools
import hashlib
import types
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from ..base.background import cores
from ..base.errors import InputError

_PIECE = 32 * 2**20


def of(value: Any) -> str:
    """The digest of a tensor, array, Arrow table, path (file or folder), number, text, None, or any nesting of
    these in tuples, lists and dicts."""
    return _digest(value).hex()[:32]


def of_function(function: Any) -> str:
    """A function's name and a digest of what it does, as far as that can be seen: its code and defaults, what it
    closes over, the tensors, modules, numbers and neighboring functions it finds in its module, a partial's
    arguments, an object's attributes, a network's layers and weights."""
    return f"{_name(function)} ({_hash(*_behavior(function)).hex()[:12]})"


def _name(function: Any) -> str:
    if isinstance(function, functools.partial):
        plain = {key: value for key, value in function.keywords.items() if isinstance(value, int | float | str)}
        return f"{_name(function.func)}({', '.join(f'{key}={value!r}' for key, value in plain.items())})"
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def _behavior(function: Any, within: tuple[Any, ...] = ()) -> Iterator[bytes | str]:
    plain = getattr(function, "__func__", function)
    if any(plain is outer for outer in within):  # it leads back to itself: its code is in the digest already
        yield getattr(plain, "__qualname__", type(plain).__qualname__)
        return
    within = (*within, plain)
    if isinstance(function, torch.nn.Module):
        for name, layer in function.named_modules():
            yield f"{name} {type(layer).__qualname__} {layer.extra_repr()} {layer.training}"
            yield from _behavior(type(layer).forward, within)
        yield _digest(dict(function.state_dict()))
    elif isinstance(function, functools.partial):
        yield from _behavior(function.func, within)
        for value in (*function.args, *(part for pair in sorted(function.keywords.items()) for part in pair)):
            yield _seen(value, within)
    elif isinstance(plain, types.FunctionType):
        yield from _code(plain.__code__)
        for value in (*(plain.__defaults__ or ()), *(plain.__kwdefaults__ or {}).values(), *_around(plain)):
            yield _seen(value, within)
        if plain is not function:
            yield _seen(function.__self__, within)
    else:
        yield type(function).__qualname__
        if isinstance(call := type(function).__call__, types.FunctionType):
            yield from _behavior(call, within)
        yield _attributes(function, within)


def _around(function: types.FunctionType) -> Iterator[Any]:
    """What a function closes over, and what it names in its module, of the kinds that decide results."""
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # a cell that is not filled yet
            yield cell.cell_contents
    for name in sorted(_names(function.__code__)):
        value = function.__globals__.get(name)
        if isinstance(value, torch.Tensor | torch.nn.Module | np.ndarray | int | float | str) or (
            isinstance(value, types.FunctionType) and value.__module__ == function.__module__
        ):
            yield value


def _names(code: types.CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*(_names(code) for code in inner))


def _attributes(value: Any, within: tuple[Any, ...]) -> bytes:
    named = getattr(value, "__dict__", None) or {
        name: getattr(value, name) for name in getattr(type(value), "__slots__", ()) if hasattr(value, name)
    }
    parts = (part for name, held in sorted(named.items()) for part in (name, _seen(held, (*within, value))))
    return _hash(type(value).__qualname__, *parts)


def _code(code: types.CodeType) -> Iterator[bytes | str]:
    yield code.co_code
    yield repr(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant)
        else:
            yield repr(sorted(constant, key=repr) if isinstance(constant, frozenset) else constant)


def _seen(value: Any, within: tuple[Any, ...]) -> bytes:
    if callable(value):
        return _hash(*_behavior(value, within))
    if any(value is outer for outer in within):
        return _hash(type(value).__qualname__)
    try:
        return _digest(value)
    except InputError:
        return _attributes(value, within)


def _digest(value: Any) -> bytes:
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return _hash(type(value).__name__, repr(value))
        case torch.Tensor():
            return _pieces(("tensor", str(value.dtype), tuple(value.shape)), _tensor_pieces(value))
        case np.ndarray():
            if value.dtype.hasobject:
                raise InputError(
                    "an array of Python objects has no fingerprint; use a numeric dtype, or pass fingerprint="
                )
            return _pieces(("array", str(value.dtype), value.shape), _array_pieces(value))
        case pa.Table() | pa.RecordBatch():
            return _pieces(("arrow", value.schema.to_string(), value.num_rows), _table_pieces(value))
        case Path():
            return _path(value)
        case Mapping():
            pairs = sorted((_digest(key), _digest(part)) for key, part in value.items())  # keys need not compare
            return _hash("dict", *(part for pair in pairs for part in pair))
        case tuple() | list():
            return _hash("tuple", *(_digest(part) for part in value))
    raise InputError(
        f"a {type(value).__name__} has no fingerprint, so a run on it cannot be resumed; pass fingerprint= with "
        "a text that changes whenever the data does"
    )


def _hash(*parts: str | bytes) -> bytes:
    total = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.digest()


def _pieces(head: Any, pieces: Iterable[Any]) -> bytes:
    threads = min(16, cores())
    waiting, digests = iter(pieces), []
    with ThreadPoolExecutor(threads) as pool:
        while window := list(islice(waiting, 2 * threads)):  # a few at a time: a file is never held whole
            digests += pool.map(lambda piece: hashlib.sha256(piece).digest(), window)
    return _hash(repr(head), *digests)


def _tensor_pieces(tensor: torch.Tensor) -> Iterator[np.ndarray]:
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    step = max(1, _PIECE // max(1, flat.element_size()))
    for start in range(0, flat.numel(), step):
        yield flat[start : start + step].cpu().view(torch.uint8).numpy()


def _array_pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for start in range(0, flat.size, _PIECE):
        yield flat[start : start + _PIECE]


def _table_pieces(table: pa.Table | pa.RecordBatch) -> Iterator[bytes]:
    whole = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
    first = whole.slice(0, 1024)
    rows = max(1, first.num_rows * _PIECE // len(_arrow_bytes(first)))  # however the table is chunked
    for start in range(0, whole.num_rows, rows):
        yield _arrow_bytes(whole.slice(start, rows))


def _arrow_bytes(table: pa.Table) -> bytes:
    # Taking every row rebuilds the buffers: what lies under nulls, and past the end of a slice, is gone.
    sink, piece = pa.BufferOutputStream(), table.combine_chunks().take(pa.array(np.arange(table.num_rows)))
    with pa.ipc.new_stream(sink, piece.schema) as writer:
        writer.write_table(piece)
    return sink.getvalue().to_pybytes()


def _path(path: Path) -> bytes:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith((".", "_")))
        return _hash("folder", *(part for file in files for part in (str(file.relative_to(path)), _path(file))))
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path")
    return _pieces(("file", path.stat().st_size), _file_pieces(path))


def _file_pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece
