"""The results of a map on disk: Parquet files of one batch or more. Together they are what has been finished.

Columns: `item` (the item's index), `status`, `message`, and the values. pandas, polars and DuckDB read the folder as it
is. Each file carries the run's identity, the positions of its items, and checksums of its pages.

Many small files take long to open: those of neighboring batches are collected into one. It is written before they are
deleted, so that after a crash at any instant some may hold the same items; what lies within another is left out.
"""

import functools
import json
import re
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ....core.base import arrow, pytree
from ....core.base.errors import BrimfulWarning, CorruptError, InputError, StorageError
from ....core.base.gather import assemble
from ....core.runs import parquet
from ....core.runs.files import TEMPORARY, storage_error, sync, write_atomic
from ..batch import BatchResult, Status, WrittenShard

WRITING = 32_000_000
"""Bytes of host memory that writing shards takes, whatever their size."""

_NAME = re.compile(r"shard-(\d{12})-(\d{12})\.parquet")
_SMALL = 500_000  # bytes of a shard that is collected with its neighbors
_MANY = 32  # such neighbors, of about one size
_SYNC = 1.0  # seconds between waits for the names of shards that workers wrote to be on disk: there may be many
_OWN = ["item", "status", "message"]

ItemStatuses = tuple[np.ndarray, np.ndarray, dict[int, str]]
"""Index, status and messages of some items."""

Part = tuple[np.ndarray, pytree.Tree | None]
"""Indices and values of some items."""


@dataclass(frozen=True, slots=True)
class _Shard:
    """A shard of this run on disk.

    Attributes:
        start, stop: the positions of its items.
        level: how often its items were collected; None where it is large enough.
        note: the form of its values.
    """

    start: int
    stop: int
    level: int | None
    note: bytes


class Shards:
    """The shards of one run.

    Args:
        folder: the run directory.
        identity: the run's; a shard that carries another is not taken.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder, self._identity = folder, identity
        self._note = b""  # the form of all values
        self._by_start: dict[int, _Shard] = {}
        self._by_stop: dict[int, _Shard] = {}
        self._synced = 0.0
        self._lock = threading.Lock()  # of reading while others are collected

    def write(self, done: BatchResult, index: np.ndarray) -> None:
        """Writes a finished batch; on disk, whole, when this returns."""
        if done.written is not None:
            self._adopt(done, done.written)
            return
        table, note = table_of(done, index)
        self._check_form(note)
        with self._lock:
            self._store(table, note, done.start, 0)
            self._collect(self._by_start[done.start])

    def _adopt(self, done: BatchResult, written: WrittenShard) -> None:
        """Takes a shard that a worker has written."""
        self._check_form(written.note)
        path = self._path(done.start, done.start + done.count)
        with self._lock:
            try:
                (self.folder / written.name).rename(path)
                if time.monotonic() - self._synced >= _SYNC:
                    self.sync()
            except OSError as error:
                raise storage_error(path, error) from error
            level = 0 if written.table_bytes < _SMALL else None
            self._add(_Shard(done.start, done.start + done.count, level, written.note))
            self._collect(self._by_start[done.start])

    def _check_form(self, note: bytes) -> None:
        if note and self._note and note != self._note:
            this, others = (json.loads(text)["columns"] for text in (note, self._note))
            raise InputError(
                f"the function returned {this} for one batch and {others} for another; the names, dtypes and shapes of "
                "an item's result must be the same in all"
            )
        self._note = note or self._note

    def _store(self, table: pa.Table, note: bytes, start: int, level: int) -> None:
        stop = start + table.num_rows
        shard = parquet.sealed(table, self._identity, start, note)
        write_atomic(self._path(start, stop), functools.partial(parquet.write, shard))
        self._add(_Shard(start, stop, level if table.nbytes < _SMALL else None, note))

    def _add(self, shard: _Shard) -> None:
        self._by_start[shard.start] = self._by_stop[shard.stop] = shard

    def sync(self) -> None:
        """Waits until the names of all shards are on the disk."""
        sync(self.folder)
        self._synced = time.monotonic()

    def _path(self, start: int, stop: int) -> Path:
        return self.folder / shard_name(start, stop)

    def _collect(self, shard: _Shard) -> None:
        """Makes one shard of many small neighbors, and then of many of those."""
        alike = [shard]
        if shard.level is None:
            return
        while (other := self._by_stop.get(alike[0].start)) and (other.level, other.note) == (shard.level, shard.note):
            alike.insert(0, other)
        while (other := self._by_start.get(alike[-1].stop)) and (other.level, other.note) == (shard.level, shard.note):
            alike.append(other)
        if len(alike) < _MANY:
            return
        tables = [self._verified(part.start, part.stop) for part in alike]
        intact = [table for table in tables if isinstance(table, pa.Table)]
        if len(intact) < len(tables):  # whoever opens the run finds it
            return
        self._store(pa.concat_tables(intact).combine_chunks(), shard.note, alike[0].start, shard.level + 1)
        whole = self._by_start[alike[0].start]
        for part in alike:
            self._path(part.start, part.stop).unlink(missing_ok=True)
            if part.start != whole.start:
                del self._by_start[part.start]
            if part.stop != whole.stop:
                del self._by_stop[part.stop]
        self._collect(whole)

    def finished(self) -> Iterator[tuple[tuple[int, int], ItemStatuses]]:
        """For each intact shard the range of its positions, and the index, status and messages of its items. A damaged
        shard is set aside, with a warning, and its items are done again."""
        end = 0
        for start, stop in self._spans():
            path = self._path(start, stop)
            if stop <= end:
                path.unlink()
                continue
            table = self._verified(start, stop) if start >= end else "another holds some of its items"
            if isinstance(table, str):
                path.rename(path.with_suffix(".damaged"))
                warnings.warn(
                    f"{path.name} is damaged ({table}); it is set aside and its items are done again",
                    BrimfulWarning,
                    stacklevel=2,
                )
                continue
            end, note = stop, arrow.note_of(table.schema)
            self._check_form(note)
            self._add(_Shard(start, stop, 0 if table.nbytes < _SMALL else None, note))
            yield (start, stop), _statuses(table)

    def read(self, start: int, stop: int) -> tuple[np.ndarray, pytree.Tree | None, np.ndarray, dict[int, str]]:
        """Index, values, status and messages of items that are finished, by their positions; from any thread.

        Raises:
            CorruptError: their shard is damaged or gone.
        """
        with self._lock:  # they may have been collected with others since
            shard = next(shard for shard in self._by_start.values() if shard.start <= start and stop <= shard.stop)
            table = self._intact(shard.start, shard.stop).slice(start - shard.start, stop - start)
        index, status, messages = _statuses(table)
        return index, arrow.from_columns(table) if arrow.note_of(table.schema) else None, status, messages

    def statuses(self, count: int) -> Iterator[ItemStatuses]:
        """Index, status and messages of the items of each shard; no values are read.

        Args:
            count: how many items there must be.

        Raises:
            CorruptError: a shard is damaged, or they do not hold every item once.
        """
        index = []
        for table in self.tables(_OWN):
            read = _statuses(table)
            index.append(read[0])
            yield read
        self._check_cover(index, count)

    def _spans(self) -> list[tuple[int, int]]:
        """The positions that the names of the shards say, each that holds others before those."""
        matches = [_NAME.fullmatch(path.name) for path in self.folder.iterdir()]
        spans = ((int(match[1]), int(match[2])) for match in matches if match)
        return sorted(spans, key=lambda span: (span[0], -span[1]))

    def _verified(self, start: int, stop: int, columns: list[str] | None = None) -> pa.Table | str:
        """A shard's table, or some columns of it; or what is wrong with it."""
        try:
            with pq.ParquetFile(self._path(start, stop), page_checksum_verification=True) as file:
                schema, table = file.schema_arrow, file.read(columns)
        except parquet.DAMAGE as error:
            return (str(error) or type(error).__name__).splitlines()[0]
        if fault := parquet.seal_fault(schema, arrow.note_of(table.schema), self._identity, start):
            return fault
        return table if table.num_rows == stop - start else f"it holds {table.num_rows} rows instead of {stop - start}"

    def check_present(self) -> None:
        """Raises `StorageError` where a shard that was written is no longer there."""
        there = {*self._spans()}
        gone = [shard for shard in self._by_start.values() if (shard.start, shard.stop) not in there]
        if gone:
            raise StorageError(
                f"{self._path(gone[0].start, gone[0].stop)} is gone: something deleted it, or its folder, during the "
                "run. Run the same command again to redo what is missing."
            )

    def remove_abandoned(self) -> None:
        """Removes shards that workers wrote and nobody took: they died before they could tell."""
        self.sync()
        for path in self.folder.glob(f".shard-*{TEMPORARY}"):
            path.unlink(missing_ok=True)

    def tables(self, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """The shards one by one, in order of their positions; or some of their columns."""
        end = 0
        for start, stop in self._spans():
            if stop <= end:
                continue
            end = stop
            yield self._intact(start, stop, columns)

    def _intact(self, start: int, stop: int, columns: list[str] | None = None) -> pa.Table:
        """A shard's table, or some columns of it."""
        table = self._verified(start, stop, columns)
        if isinstance(table, str):
            raise CorruptError(
                f"{self._path(start, stop)} is damaged: {table}. Delete it and run the same command again to redo "
                "its items."
            )
        return table

    def values(self, count: int | None = None) -> pytree.Tree | None:
        """All values, in the order of the items; None when there are none.

        Args:
            count: how many items there must be; by default as many as the shards hold.

        Raises:
            CorruptError: a shard is damaged, or they do not hold every item once.
        """
        index, parts, missing = [], [], []
        for table in self.tables():
            items = arrow.numpy_of(arrow.whole(table["item"]))
            if arrow.note_of(table.schema):
                index.append(items)
                parts.append(arrow.from_columns(table))
            else:
                missing.append(items)
        self._check_cover([*index, *missing], count)
        return assemble(parts, index, missing)

    def parts(self) -> Iterator[Part]:
        """The values shard by shard, in order of their positions: the indices of the items, and their values; None for
        a shard in which all failed."""
        for table in self.tables():
            items = arrow.numpy_of(arrow.whole(table["item"]))
            yield items, arrow.from_columns(table) if arrow.note_of(table.schema) else None

    def _check_cover(self, index: list[np.ndarray], count: int | None) -> None:
        items = np.sort(np.concatenate(index)) if index else np.array([], np.int64)
        count = len(items) if count is None else count
        doubled = items[1:][np.diff(items) == 0]
        wrong = doubled if len(doubled) else np.setxor1d(items, np.arange(count), assume_unique=True)
        if len(wrong):
            raise CorruptError(
                f"{self.folder} does not hold every item once: {len(wrong):,} are missing or doubled, the first is "
                f"item {wrong[0]}. Run the same command again to redo what is missing."
            )


def shard_name(start: int, stop: int) -> str:
    """Of the file that holds these positions."""
    return f"shard-{start:012d}-{stop:012d}.parquet"


def table_of(done: BatchResult, index: np.ndarray) -> tuple[pa.Table, bytes]:
    """A finished batch as a table, and the form of its values."""
    texts = [done.messages.get(item) for item in range(done.count)] if done.messages else []
    columns: dict[str, pa.Array] = {
        "item": arrow.array_of(index.astype(np.int64)),
        "status": arrow.array_of(done.status),
        "message": arrow.text_array(texts) if texts else pa.nulls(done.count, pa.string()),
    }
    values, note = ({}, b"") if done.values is None else arrow.to_columns(done.values)
    return pa.table(columns | values), note


def _statuses(table: pa.Table) -> ItemStatuses:
    index, status = (arrow.numpy_of(arrow.whole(table[name])) for name in _OWN[:2])
    flagged = np.flatnonzero(status != Status.OK)
    texts = zip(flagged, table["message"].take(arrow.array_of(flagged)).to_pylist(), strict=True)
    return index, status, {int(index[row]): text for row, text in texts if text}
