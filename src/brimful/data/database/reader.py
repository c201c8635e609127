"""Chunks out of the database: several connections per process, opened when they are needed; each chunk is checked.

A reader is pinned to one set of chunks. While any of its connections is open, the set is not dropped. Where a
connection is lost another one is opened, which makes sure that the set is still there.
"""

import contextlib
import os
import queue
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ...core.base.background import cores
from ...core.base.errors import StorageError
from ...core.base.extras import require
from . import catalogue, chunk_format
from .catalogue import ChunkSet, Entry
from .connection import Database

if TYPE_CHECKING:
    from psycopg import Connection

Sink = Callable[[int, memoryview, int], Any]
"""Takes the number of a chunk, its bytes, which are not to be kept, and the number of its rows."""

CONNECTIONS = max(2, min(4, cores()))
"""One waits for the server while another one's bytes are checked; more than there are cores gain nothing."""


class ChunkReader:
    """Reads the chunks of a set, from any thread. It can be pickled: a copy opens connections of its own."""

    def __init__(self, database: Database, made: Entry, chunks: ChunkSet, connections: int = CONNECTIONS) -> None:
        self.database, self.entry, self.chunks, self.connections = database, made, chunks, connections
        sql = require("postgres", "psycopg").sql
        table = made.chunk_table(chunks.version)
        self._query = sql.SQL("SELECT rows, checksum, data FROM {} WHERE chunk = %s").format(table)
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._idle: queue.LifoQueue[Connection[Any] | None] = queue.LifoQueue()
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
        if self._process != os.getpid():  # forked: the connections are the parent's
            self._reset()
        if not 0 <= chunk < self.chunks.chunks:
            raise IndexError(f"chunk {chunk} of {self.chunks.chunks}")
        for last in (False, True):  # what is damaged on its way is whole at the second attempt
            rows, checksum, content = self.database.retrying(lambda: self._fetch(chunk))
            if len(content) == self._bytes(chunk) and chunk_format.checksum(content) == checksum:
                return sink(chunk, content, rows)
            if last:
                break
        raise StorageError(
            f"chunk {chunk} of dataset {self.entry.name!r} is damaged: its {len(content):,} bytes do not have the "
            f"checksum they were written with. The rows are the truth: brimful data chunks {self.entry.name} --anew"
        )

    def read_all(self, sink: Sink) -> None:
        """Gives all chunks to the sink, which is called on several threads at once."""
        numbers = iter(range(self.chunks.chunks))

        def work() -> None:
            for number in numbers:  # shared: each takes the next
                self.read(number, sink)

        count = min(self.connections, self.chunks.chunks)
        with ThreadPoolExecutor(count, thread_name_prefix="brimful-chunks") as pool:
            for done in [pool.submit(work) for _ in range(count)]:
                done.result()

    def rows_of(self, chunk: int) -> int:
        return min(self.chunks.chunk_rows, self.chunks.rows - chunk * self.chunks.chunk_rows)

    def _bytes(self, chunk: int) -> int:
        return chunk_format.chunk_bytes(self.entry.fields, self.rows_of(chunk))

    def _fetch(self, chunk: int) -> tuple[int, int, memoryview]:
        """One attempt: the bytes are those that the connection received, without a copy."""
        connection = self._idle.get()
        try:
            if connection is None:
                connection = self._open()
            row = connection.execute(self._query, (chunk,), prepare=True, binary=True).fetchone()
        except BaseException as error:
            if connection is not None:
                connection.close()
            connection = None
            if isinstance(error, require("postgres", "psycopg").errors.UndefinedTable):
                raise self._dropped() from error
            raise
        finally:
            self._idle.put(connection)
        if row is None:
            raise StorageError(
                f"chunk {chunk} of dataset {self.entry.name!r} is missing; build the chunks again: brimful data chunks "
                f"{self.entry.name} --anew"
            )
        return row

    def _open(self) -> "Connection[Any]":
        """A connection that keeps the set from being dropped for as long as it is open."""
        connection = self.database.open()
        try:
            connection.adapters.register_loader("bytea", _views())
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
        return connection

    def _dropped(self) -> StorageError:
        return StorageError(
            f"the chunks of version {self.chunks.version} of dataset {self.entry.name!r}, which this run reads, are no "
            "longer there: its rows were changed, and new chunks built, while no connection of the run was open. Start "
            "the run again; it will read the new rows"
        )


def _close(idle: "queue.LifoQueue[Connection[Any] | None]", process: int) -> None:
    """Closes what is open, in the process that opened it."""
    connections = []
    with contextlib.suppress(queue.Empty):
        while process == os.getpid():
            connections.append(idle.get_nowait())
    for connection in connections:
        if connection is not None:
            connection.close()
        idle.put(None)


def _views() -> Any:
    """A loader of bytes that does not copy them: they are part of the result, which lives as long as they do."""
    adapt = require("postgres", "psycopg.adapt")

    class ViewLoader(adapt.Loader):
        format = 1

        def load(self, data: Any) -> memoryview:
            return memoryview(data)

    return ViewLoader
