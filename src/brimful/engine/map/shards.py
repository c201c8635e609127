"""The results of a map on disk: one Parquet file per batch. Together they are what has been finished.

Columns: `item` (the item's index), `status`, `message`, and the values. pandas, polars and DuckDB read the
folder as it is. Each file carries the run's identity, and checksums of its pages.
"""

import functools
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...core.base import arrow, pytree
from ...core.base.errors import BrimfulWarning, CorruptError
from ...core.runs import fingerprint, parquet
from ...core.runs.files import write_atomic
from .batch import BatchResult, Status

WRITING = 32_000_000
"""Bytes of host memory that writing shards takes, whatever their size."""

_NAME = re.compile(r"shard-\d{12}-\d{12}\.parquet")


class Shards:
    """The shards of one run.

    Args:
        folder: the run directory.
        identity: the run's; a shard that carries another is not taken.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder, self._identity = folder, identity
        pa.array(np.zeros(1))  # brings pandas in where it is installed: 40 MB, before the budget begins to count

    def write(self, done: BatchResult, index: np.ndarray) -> None:
        """Writes a finished batch; on disk, whole, when this returns."""
        texts = [done.messages.get(item) for item in range(done.count)] if done.messages else []
        columns: dict[str, pa.Array] = {
            "item": pa.array(index.astype(np.int64)),
            "status": pa.array(done.status),
            "message": pa.array(texts, pa.string()) if texts else pa.nulls(done.count, pa.string()),
        }
        values, note = ({}, b"") if done.values is None else arrow.to_columns(done.values)
        table = pa.table(columns | values)
        seal = _seal(table.schema, note, self._identity)
        table = table.replace_schema_metadata(arrow.schema_note(note, run=self._identity, seal=seal))
        path = self.folder / f"shard-{done.start:012d}-{done.start + done.count:012d}.parquet"
        write_atomic(path, functools.partial(parquet.write, table))

    def finished(self) -> Iterator[tuple[tuple[int, int], tuple[np.ndarray, np.ndarray, dict[int, str]]]]:
        """For each intact shard the range of its positions, and the index, status and messages of its items. A damaged
        shard is set aside, with a warning, and its items are done again."""
        for path in self.paths():
            start, stop = (int(position) for position in path.stem.split("-")[1:])
            table = self._verified(path, stop - start)
            if isinstance(table, str):
                path.rename(path.with_suffix(".damaged"))
                warnings.warn(
                    f"{path.name} is damaged ({table}); it is set aside and its items are done again",
                    BrimfulWarning,
                    stacklevel=2,
                )
                continue
            index, status = table["item"].to_numpy(), table["status"].to_numpy()
            flagged = np.flatnonzero(status != Status.OK)
            texts = zip(flagged, table["message"].take(pa.array(flagged)).to_pylist(), strict=True)
            yield (start, stop), (index, status, {int(index[row]): text for row, text in texts if text})

    def _verified(self, path: Path, rows: int) -> pa.Table | str:
        """A shard's table, or what is wrong with it."""
        try:
            table = pq.read_table(path, page_checksum_verification=True)
        except (pa.ArrowException, OSError) as error:
            return str(error).splitlines()[0]
        notes = table.schema.metadata or {}
        if notes.get(b"brimful.run") != self._identity.encode():
            return "it belongs to another run"
        if notes.get(b"brimful.seal") != _seal(table.schema, arrow.note_of(table), self._identity).encode():
            return "its columns are not those that were written"
        return table if table.num_rows == rows else f"it holds {table.num_rows} rows instead of {rows}"

    def paths(self) -> list[Path]:
        """The shard files, in order of their positions."""
        return sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))

    def tables(self) -> Iterator[pa.Table]:
        """The shards one by one, in order of their positions."""
        for path in self.paths():
            try:
                yield pq.read_table(path, page_checksum_verification=True)
            except (pa.ArrowException, OSError) as error:
                raise CorruptError(
                    f"{path} is damaged: {error}. Delete it and run the same command again to redo its items."
                ) from error

    def values(self) -> pytree.Tree | None:
        """All values, in the order of the items; None when there are none."""
        index, parts, missing = [], [], []
        for table in self.tables():
            items = table["item"].to_numpy()
            if arrow.note_of(table):
                index.append(items)
                parts.append(arrow.from_columns(table))
            else:
                missing.append(items)
        return pytree.assemble(parts, index, missing)


def _seal(schema: pa.Schema, note: bytes, identity: str) -> str:
    """A checksum of what is not in the pages, which have their own."""
    return fingerprint.of([schema.remove_metadata().to_string(), note, identity])
