"""Parquet files: how they are written and read, and how a shard says whose it is."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..base import arrow
from ..base.errors import InputError
from . import fingerprint

DAMAGE = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, TypeError, MemoryError)
"""What reading a damaged file raises: pyarrow decodes names and counts before it checks them."""

_GROUP = 4_000_000  # bytes of a row group: larger ones are slower to write, and take more than twice their size
_TRIED, _WORTHWHILE = 1 << 16, 1 << 12  # bytes of a column that are compressed to see what comes of it; fewer are not


def write(table: pa.Table, path: Path) -> None:
    """Writes a table of measured numbers, which no encoding and no compression makes much smaller: as they are, with
    checksums, they are written some six times as fast. Columns of bytes that get much smaller are compressed: that
    takes less time than writing them."""
    with pq.ParquetWriter(
        path,
        table.schema,
        compression=cast(Any, {name: "lz4" for name in table.column_names if _compresses(table[name])}),
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        rows = max(1, _GROUP * table.num_rows // max(1, table.nbytes))
        for start in range(0, max(1, table.num_rows), rows):
            for group in _groups(table.slice(start, rows)):
                writer.write_table(group, row_group_size=max(1, group.num_rows))
    pa.default_memory_pool().release_unused()


def write_tables(tables: Iterable[pa.Table], path: Path, compression: str = "snappy") -> None:
    """Writes a table for people to read, in parts of which one is in memory at once. There is at least one."""
    parts = iter(tables)
    first = next(parts)
    with pq.ParquetWriter(path, first.schema, compression=cast(Any, compression)) as writer:
        writer.write_table(first)
        del first
        for part in parts:
            writer.write_table(part)


def _compresses(column: pa.ChunkedArray) -> bool:
    """Whether some of a column's bytes get to half their size or less."""
    if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
        return False
    some = bytearray()
    for chunk in column.chunks[:4]:
        _, offsets, data = chunk.buffers()
        if data is None or not len(chunk):
            continue
        places = np.frombuffer(offsets, np.int64 if pa.types.is_large_binary(chunk.type) else np.int32)
        start, end = (int(places[chunk.offset + row]) for row in (0, len(chunk)))  # of a slice, where it lies
        for first in (start, (start + end) // 2):
            some += data[first : min(end, first + _TRIED // 4)].to_pybytes()
    return len(some) >= _WORTHWHILE and 2 * len(pa.compress(bytes(some), "lz4", asbytes=True)) <= len(some)


def _groups(table: pa.Table) -> Iterator[pa.Table]:
    """Rows of about the bytes of a row group: in halves where some are longer than others."""
    if table.nbytes <= 2 * _GROUP or table.num_rows == 1:
        yield table
        return
    middle = table.num_rows // 2
    yield from _groups(table.slice(0, middle))
    yield from _groups(table.slice(middle))


def sealed(table: pa.Table, identity: str, start: int, note: bytes = b"") -> pa.Table:
    """The table of a shard, which says whose it is and where its rows belong.

    Args:
        identity: of the run or store that it is a part of.
        start: the position of its first row among all.
        note: the form of the tensors in it, as in `arrow.to_columns`.
    """
    seal = _seal(table.schema, note, identity, start)
    return table.replace_schema_metadata(arrow.schema_note(note, run=identity, seal=seal, start=str(start)))


def seal_fault(schema: pa.Schema, note: bytes, identity: str, start: int) -> str | None:
    """What is wrong with a shard that should be the one of this place; None where it is.

    Args:
        schema: of the file.
        note: that of what was read from it: bits that are wrong may show in one of the two alone.
        identity, start: as in `sealed`.
    """
    notes = schema.metadata or {}
    if notes.get(b"brimful.run") != identity.encode():
        return "it belongs to another run"
    if notes.get(b"brimful.start") != str(start).encode():
        return "it holds the items of another place"
    if notes.get(b"brimful.seal") != _seal(schema, note, identity, start).encode():
        return "its columns are not those that were written"
    return None


def _seal(schema: pa.Schema, note: bytes, identity: str, start: int) -> str:
    """A checksum of what is not in the pages, which have their own."""
    return fingerprint.of([schema.remove_metadata().to_string(), note, identity, start])


def files(path: Path) -> tuple[list[Path], list[pq.ParquetFile]]:
    """A Parquet file, or all those in a folder, opened; all must have the same columns."""
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path")
    paths = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not paths:
        raise InputError(f"{path} holds no .parquet files; name a Parquet file or a folder of them")
    opened = []
    for file in paths:
        try:
            opened.append(pq.ParquetFile(file, memory_map=True))
        except DAMAGE as error:
            raise InputError(f"{file} cannot be read as Parquet: {error}") from error
        if not opened[-1].schema_arrow.equals(opened[0].schema_arrow):
            raise InputError(f"{file} has other columns or types than {paths[0]}; all files must have the same")
    return paths, opened
