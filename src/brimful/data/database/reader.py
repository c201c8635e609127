"""Chunks out of the database: several connections per process, opened when they are needed; each chunk is checked.

A reader is pinned to one set of chunks. While any of its connections is open, the set is not dropped. Where a
connection is lost another one is opened, which makes sure that the set is still there.
"""

import contextlib
import os
import queue
import struct
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...core.base.background import cores
from ...core.base.errors import StorageError
from ...core.base.extras import require
from . import catalogue, chunk_format
from .catalogue import ChunkSet, Entry
from .connection import Database
from .copy_connection import CopyConnection
from .copy_stream import HEADER, TRAILER

Sink = Callable[[int, memoryview, int], Any]
"""Takes the number of a chunk, its bytes, which are not to be kept, and the number of its rows."""

_ROW = struct.Struct(">hiiiiiqi")  # a chunk in a COPY, up to its bytes: columns, then the length of each and its value
_AT_ONCE = 16  # chunks of one statement

CONNECTIONS = max(2, min(4, cores()))
"""One waits for the server while another one's bytes are checked; more than there are cores gain nothing."""


class _DamagedError(Exception):
    """A chunk does not have its checksum."""


class ChunkReader:
    """Reads the chunks of a set, from any thread. It can be pickled: a copy opens connections of its own."""

    def __init__(self, database: Database, made: Entry, chunks: ChunkSet, connections: int = CONNECTIONS) -> None:
        self.database, self.entry, self.chunks, self.connections = database, made, chunks, connections
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._idle: queue.LifoQueue[CopyConnection | None] = queue.LifoQueue()
        for _ in range(self.connections):
            self._idle.put(None)  # one that is still to be opened
        weakref.finalize(self, _close, self._idle, self._process)

    def __reduce__(self) -> tuple[Any, ...]:
        return ChunkReader, (self.database, self.entry, self.chunks, self.connections)

    def close(self) -> None:
        """Closes the connections that are open; reading opens others."""
        _close(self._idle, self._process)

    def read(self, chunk: int, sink: Sink) -> Any:
        """What the sink returns for a chunk; it is called once, with bytes that have been checked.

        Raises:
            StorageError: the server does not come back, the chunk is damaged, or the set was dropped.
        """
        if not 0 <= chunk < self.chunks.chunks:
            raise IndexError(f"chunk {chunk} of {self.chunks.chunks}")
        return self._read_range(range(chunk, chunk + 1), sink)

    def read_all(self, sink: Sink) -> None:
        """Gives all chunks to the sink, which is called on several threads at once."""
        count = min(self.connections, self.chunks.chunks)
        step = max(1, min(_AT_ONCE, self.chunks.chunks // (4 * count)))
        starts = iter(range(0, self.chunks.chunks, step))

        def work() -> None:
            for start in starts:  # shared: each takes the next
                self._read_range(range(start, min(start + step, self.chunks.chunks)), sink)

        with ThreadPoolExecutor(count, thread_name_prefix="brimful-chunks") as pool:
            for done in [pool.submit(work) for _ in range(count)]:
                done.result()

    def _read_range(self, chunks: range, sink: Sink) -> Any:
        """What the sink returns for the last of some chunks, which follow one another. What is damaged on its way is
        whole at the second attempt; where the connection is lost, those that are left are read on another one."""
        if self._process != os.getpid():  # forked: the connections are the parent's
            self._reset()
        left, results, damaged = deque(chunks), deque(maxlen=1), -1
        while left:
            try:
                self.database.retrying(lambda: self._attempt(left, sink, results.append))
            except _DamagedError as error:
                if left[0] == damaged:
                    raise StorageError(
                        f"chunk {damaged} of dataset {self.entry.name!r} is damaged: its {error.args[0]:,} bytes do "
                        "not have the checksum they were written with. The rows are the truth: brimful data chunks "
                        f"{self.entry.name} --anew"
                    ) from error
                damaged = left[0]
        return results[0]

    def rows_of(self, chunk: int) -> int:
        return min(self.chunks.chunk_rows, self.chunks.rows - chunk * self.chunks.chunk_rows)

    def _bytes(self, chunk: int) -> int:
        return chunk_format.chunk_bytes(self.entry.fields, self.rows_of(chunk))

    def _copy(self, first: int, last: int) -> bytes:
        sql = require("postgres", "psycopg").sql
        query = "SELECT chunk, rows, checksum, data FROM {} WHERE chunk BETWEEN {} AND {} ORDER BY chunk"
        copy = sql.SQL(f"COPY ({query}) TO STDOUT (FORMAT binary)")
        return copy.format(self.entry.chunk_table(self.chunks.version), first, last).as_bytes()

    def _attempt(self, left: deque[int], sink: Sink, done: Callable[[Any], None]) -> None:
        """Reads chunks that follow one another; each is taken off the list when the sink has had it."""
        if not left:  # the connection was lost after the last of them
            return
        connection = self._idle.get()
        try:
            if connection is None:
                connection = self._open()
            with contextlib.closing(connection.messages(self._copy(left[0], left[-1]))) as messages:
                for number, rows, checksum, content in _chunks(messages):
                    if number != left[0]:
                        break
                    if len(content) != self._bytes(number) or chunk_format.checksum(content) != checksum:
                        raise _DamagedError(len(content))
                    done(sink(number, content, rows))
                    left.popleft()
            if left:
                raise StorageError(
                    f"chunk {left[0]} of dataset {self.entry.name!r} is missing; build the chunks again: brimful data "
                    f"chunks {self.entry.name} --anew"
                )
        except BaseException as error:
            if connection is not None:
                connection.close()
            connection = None
            if isinstance(error, require("postgres", "psycopg").errors.UndefinedTable):
                raise self._dropped() from error
            raise
        finally:
            self._idle.put(connection)

    def _open(self) -> CopyConnection:
        """A connection that keeps the set from being dropped for as long as it is open."""
        connection = self.database.open()
        try:
            key = (self.entry.id, self.chunks.version)
            connection.execute("SELECT pg_advisory_lock_shared(%s)", (catalogue.pin_key(*key),))
            row = connection.execute(
                "SELECT fingerprint FROM brimful.chunk_set WHERE dataset = %s AND version = %s", key
            ).fetchone()
        except BaseException:
            connection.close()
            raise
        if row is None or row[0] != self.chunks.fingerprint:
            connection.close()
            raise self._dropped()
        return CopyConnection(connection)

    def _dropped(self) -> StorageError:
        return StorageError(
            f"the chunks of version {self.chunks.version} of dataset {self.entry.name!r}, which this run reads, are no "
            "longer there: its rows were changed, and new chunks built, while no connection of the run was open. Start "
            "the run again; it will read the new rows"
        )


def _close(idle: "queue.LifoQueue[CopyConnection | None]", process: int) -> None:
    """Closes what is open, in the process that opened it."""
    connections = []
    with contextlib.suppress(queue.Empty):
        while process == os.getpid():
            connections.append(idle.get_nowait())
    for connection in connections:
        if connection is not None:
            connection.close()
        idle.put(None)


def _chunks(messages: Iterable[memoryview]) -> Iterator[tuple[int, int, int, memoryview]]:
    """Number, rows, checksum and bytes of each chunk that a COPY gives."""
    for message in messages:
        row = message[len(HEADER) :] if message[: len(HEADER)] == HEADER else message
        if len(row) > len(TRAILER):
            _, _, number, _, rows, _, checksum, size = _ROW.unpack_from(row)
            yield number, rows, checksum, row[_ROW.size : _ROW.size + size]
