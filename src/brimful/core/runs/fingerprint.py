"""A short digest of some data, equal exactly when the data is: how a resumed run knows its input again.

Content is hashed, not dates or names, in blocks on several threads: about 1.3 GB/s for each core.
"""

import hashlib
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

_BLOCK = 32 * 2**20


def of(value: Any) -> str:
    """The digest of a tensor, array, Arrow table, path (file or folder), number, text, None, or any nesting of
    these in tuples, lists and dicts."""
    return digest(value).hex()[:32]


def digest(value: Any) -> bytes:
    """The whole digest, in bytes: see `of`."""
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return join(type(value).__name__, repr(value))
        case torch.Tensor():
            return _blocks(("tensor", str(value.dtype), tuple(value.shape)), _tensor_blocks(value))
        case np.ndarray():
            if value.dtype.hasobject:
                raise InputError(
                    "an array of Python objects has no fingerprint; use a numeric dtype, or pass fingerprint="
                )
            return _blocks(("array", str(value.dtype), value.shape), _array_blocks(value))
        case pa.Table() | pa.RecordBatch():
            return _blocks(("arrow", value.schema.to_string(), value.num_rows), _table_blocks(value))
        case Path():
            return _path(value)
        case Mapping():
            return join("dict", *(part for pair in _pairs(value) for part in pair))
        case tuple() | list():
            return join("tuple", *(digest(part) for part in value))
    raise InputError(
        f"a {type(value).__name__} has no fingerprint, so a run on it cannot be resumed; pass fingerprint= with "
        "a text that changes whenever the data does"
    )


def _pairs(table: Mapping[Any, Any]) -> list[tuple[bytes, bytes]]:
    return sorted((digest(key), digest(value)) for key, value in table.items())  # keys need not compare


def join(*parts: str | bytes) -> bytes:
    """One digest of several parts; where one ends and the next begins counts."""
    total = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.digest()


def _blocks(head: Any, blocks: Iterable[Any]) -> bytes:
    threads = min(16, cores())
    waiting, digests = iter(blocks), []
    with ThreadPoolExecutor(threads) as pool:
        while window := list(islice(waiting, 2 * threads)):  # a few at a time: a file is never held whole
            digests += pool.map(lambda block: hashlib.sha256(block).digest(), window)
    return join(repr(head), *digests)


def _tensor_blocks(tensor: torch.Tensor) -> Iterator[np.ndarray]:
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    step = max(1, _BLOCK // max(1, flat.element_size()))
    for start in range(0, flat.numel(), step):
        yield flat[start : start + step].cpu().view(torch.uint8).numpy()


def _array_blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for start in range(0, flat.size, _BLOCK):
        yield flat[start : start + _BLOCK]


def _table_blocks(table: pa.Table | pa.RecordBatch) -> Iterator[bytes]:
    whole = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
    first = whole.slice(0, 1024)
    rows = max(1, first.num_rows * _BLOCK // len(_arrow_bytes(first)))  # however the table is chunked
    for start in range(0, whole.num_rows, rows):
        yield _arrow_bytes(whole.slice(start, rows))


def _arrow_bytes(table: pa.Table) -> bytes:
    # Taking every row rebuilds the buffers: what lies under nulls, and past the end of a slice, is gone.
    sink, compact = pa.BufferOutputStream(), table.combine_chunks().take(pa.array(np.arange(table.num_rows)))
    with pa.ipc.new_stream(sink, compact.schema) as writer:
        writer.write_table(compact)
    return sink.getvalue().to_pybytes()


def _path(path: Path) -> bytes:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith((".", "_")))
        return join("folder", *(part for file in files for part in (str(file.relative_to(path)), _path(file))))
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path")
    return _blocks(("file", path.stat().st_size), _file_blocks(path))


def _file_blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
