"""What can be done with datasets in the database; the commands of `brimful data`, as functions."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv

from ...core.base.errors import ConfigError, InputError, StorageError
from ...core.runs.context import RunContext
from ..arrow_tables import table_dataset
from ..dataset import Dataset, some
from ..sources import source
from . import build, catalogue, chunk_format
from .catalogue import Entry
from .connection import Database
from .query import QueryDataset, check_query, table_query
from .reader import CONNECTIONS, ChunkReader
from .row_reader import read_rows
from .source import open_dataset


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """A dataset in the database.

    Attributes:
        name, origin: what it is called, and the file or query that it was imported from.
        created: seconds since the epoch.
        fields: dtype and shape of one sample, by the name of the field.
        rows: how many samples there are.
        bytes: of all of them as tensors.
        sample_bytes: of one.
        version: of the rows; every statement that changes them raises it.
        chunks, chunk_rows: how many chunks are built from these rows, and of how many rows; 0 where the rows are newer.
        disk_bytes: what rows and chunks take in the database.
        fingerprint: of the content; empty where the rows are newer than the chunks.
    """

    name: str
    origin: str
    created: float
    fields: dict[str, str]
    rows: int
    bytes: int
    sample_bytes: int
    version: int
    chunks: int
    chunk_rows: int
    disk_bytes: int
    fingerprint: str

    @property
    def fresh(self) -> bool:
        """Whether the chunks are those of the rows."""
        return self.chunks > 0


@dataclass(frozen=True, slots=True)
class Verified:
    """What `verify` found: `faults` is empty where all chunks are whole and hold what the rows say."""

    name: str
    rows: int
    chunks: int
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadRate:
    """How fast a dataset is read into host memory: seconds to the first chunk, of reading all, and of reading all once
    more on connections that are open and a server that has it in memory."""

    name: str
    bytes: int
    connections: int
    first_seconds: float
    seconds: float
    again_seconds: float

    @property
    def megabytes_per_second(self) -> float:
        return self.bytes / 1e6 / self.seconds

    @property
    def megabytes_per_second_again(self) -> float:
        return self.bytes / 1e6 / self.again_seconds


def postgres(
    what: str,
    url: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    home: str | Path | None = None,
    rebuild: bool = True,
    connections: int = CONNECTIONS,
) -> Dataset:
    """A dataset, a table or a query in PostgreSQL as a source for `loader`, `train` and `map`.

    Nothing is loaded before it is needed; what it will take is known from its schema. It can be sent to other
    processes, which open connections of their own and read the same rows.

    Args:
        what: the name of a dataset (see `import_dataset`), of a table, or a query with ORDER BY. Datasets are read by
            chunks, at hundreds of megabytes a second; tables and queries are read whole, at some twenty.
        url: of the server, "postgresql://user:password@host:port/database"; by default the embedded one.
        columns: only these.
        home: the directory of the embedded server, if not the usual one.
        rebuild: whether the chunks of a dataset whose rows have changed are built first; otherwise that is an error.
        connections: how many read a dataset at the same time.

    Raises:
        InputError: there is no such dataset or table, or its columns cannot be tensors.
        ConfigError, StorageError: the server refuses, or cannot be reached.
        MissingExtraError: the extra `postgres` is not installed.
    """
    database = Database.at(url, home)
    if not isinstance(what, str) or not what.strip():
        raise InputError(f"{what!r} is not the name of a dataset, of a table, or a query")
    if len(what.split()) > 1:
        return QueryDataset(database, check_query(what), columns)
    with database.session() as connection:
        known = [made.name for made in catalogue.entries(connection)]
        query = None if what in known else table_query(connection, what)
    if query is not None:
        return QueryDataset(database, query, columns)
    return open_dataset(database, what, columns, rebuild=rebuild, connections=connections)


def import_dataset(
    what: Any,
    name: str,
    url: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    home: str | Path | None = None,
    context: RunContext | None = None,
) -> DatasetInfo:
    """A new dataset: its rows as a table with typed columns, and its chunks. All of it is there in the end, or nothing.

    Args:
        what: a .npy, .npz, Parquet or CSV file, a query with ORDER BY on the same server, or anything that
            `data.source` reads.
        name: of the new dataset.
        url, home: of the server, as in `postgres`.
        columns: only these.
        context: gets the progress as events, and can cancel.
    """
    database = Database.at(url, home)
    catalogue.check_name(name)
    rows, origin = _rows(what, database, columns)
    progress = build.Progress(f"import {name}", len(rows), context or RunContext())
    with database.session() as connection:
        build.import_rows(connection, rows, name, origin, progress)
        progress.finish()
        return _info(connection, catalogue.entry(connection, name))


def _rows(what: Any, database: Database, columns: Sequence[str] | None) -> tuple[Dataset, str]:
    """What is to be imported, and what it is called in the catalogue."""
    if not isinstance(what, str | Path):
        return source(what, columns), type(what).__name__
    path = Path(what)
    if isinstance(what, str) and len(what.split()) > 1 and not path.exists():
        query = check_query(what)
        return QueryDataset(database, query, columns), query
    if path.suffix == ".csv" and path.is_file():
        return _csv(path, columns), str(path)
    return source(path, columns), str(path)


def _csv(path: Path, columns: Sequence[str] | None) -> Dataset:
    try:
        table = csv.read_csv(path)
        table = table.rename_columns(table.column_names)  # names that are no text raise here
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as CSV: {error}. Its first line must name the columns") from error
    some(table.num_rows, str(path))
    return table_dataset(table, columns)


def list_datasets(url: str | None = None, *, home: str | Path | None = None) -> list[DatasetInfo]:
    """All datasets of a database, by name."""
    with Database.at(url, home).session() as connection:
        return [_info(connection, made) for made in catalogue.entries(connection)]


def show_dataset(name: str, url: str | None = None, *, home: str | Path | None = None) -> DatasetInfo:
    """One dataset."""
    with Database.at(url, home).session() as connection:
        return _info(connection, catalogue.entry(connection, name))


def _info(connection: Any, made: Entry) -> DatasetInfo:
    tables = [made.rows_table, *(made.chunk_table(n) for n in catalogue.versions_with_chunks(connection, made.id))]
    names = [table.as_string(connection) for table in tables]
    disk = connection.execute(
        "SELECT coalesce(sum(pg_total_relation_size(to_regclass(name))), 0)::int8 FROM unnest(%s::text[]) AS name",
        (names,),
    ).fetchone()[0]
    rows = made.chunks.rows if made.chunks else build.count_rows(connection, made)
    one = sum(field.unit_bytes for field in made.fields.values())
    return DatasetInfo(
        name=made.name,
        origin=made.origin,
        created=made.created,
        fields={
            name: f"{str(field.dtype).removeprefix('torch.')} {list(field.shape) or ''}".strip()
            for name, field in made.fields.items()
        },
        rows=rows,
        bytes=rows * one,
        sample_bytes=one,
        version=made.version,
        chunks=made.chunks.chunks if made.chunks else 0,
        chunk_rows=made.chunks.chunk_rows if made.chunks else 0,
        disk_bytes=disk,
        fingerprint=made.chunks.fingerprint if made.chunks else "",
    )


def build_dataset_chunks(
    name: str,
    url: str | None = None,
    *,
    anew: bool = False,
    home: str | Path | None = None,
    context: RunContext | None = None,
) -> DatasetInfo:
    """Builds the chunks of a dataset where its rows have changed, or in any case with `anew`."""
    build.build_chunks(Database.at(url, home), name, anew, context)
    return show_dataset(name, url, home=home)


def verify_dataset(
    name: str, url: str | None = None, *, home: str | Path | None = None, context: RunContext | None = None
) -> Verified:
    """Reads all rows and all chunks of a dataset and compares them: damage is a fault, and so is a change that no
    trigger saw.

    Raises:
        InputError: its chunks are older than its rows, or its table has other columns.
    """
    database = Database.at(url, home)
    faults: list[str] = []
    with database.session() as connection:
        made = catalogue.entry(connection, name)
        catalogue.check_schema(connection, made)
        if made.chunks is None:
            raise InputError(f"the rows of {name!r} are newer than its chunks: brimful data chunks {name}")
        progress = build.Progress(f"verify {name}", made.chunks.rows, context or RunContext())
        reader = ChunkReader(database, made, made.chunks, 1)
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            rows = build.count_rows(connection, made)
            if rows != made.chunks.rows:
                faults.append(f"there are {rows:,} rows, and the chunks were built from {made.chunks.rows:,}")
            parts = chunk_format.regroup(read_rows(database, connection, made, rows), made.chunks.chunk_rows)
            for number, part in zip(range(made.chunks.chunks), parts, strict=False):
                faults += _compare(reader, number, bytes(chunk_format.encode(made.fields, part)))
                progress.add(len(next(iter(part.values()))))
        reader.close()
        progress.finish()
    return Verified(name, rows, made.chunks.chunks, tuple(faults))


def _compare(reader: ChunkReader, number: int, expected: bytes) -> list[str]:
    try:
        same = reader.read(number, lambda chunk, content, rows: content == expected)
    except StorageError as error:
        return [str(error)]
    first = number * reader.chunks.chunk_rows
    return [] if same else [f"chunk {number} (rows from {first:,}) does not hold what the rows say"]


def bench_dataset(
    name: str, url: str | None = None, *, connections: int = CONNECTIONS, home: str | Path | None = None
) -> ReadRate:
    """Reads a dataset twice into host memory, and tells how fast that was."""
    if connections < 1:
        raise ConfigError(f"connections is {connections}; use at least 1")
    dataset = open_dataset(Database.at(url, home), name, connections=connections)
    ends = [time.perf_counter()]
    dataset.read(0)
    ends.append(time.perf_counter())
    for _ in range(2):
        dataset.read_whole()
        ends.append(time.perf_counter())
    dataset.close()
    first, once, again = (end - start for start, end in itertools.pairwise(ends))
    return ReadRate(name, dataset.nbytes, connections, first, once, again)


def delete_dataset(name: str, url: str | None = None, *, home: str | Path | None = None) -> DatasetInfo:
    """Removes a dataset, its rows and its chunks, and gives what it was.

    Raises:
        StorageError: a run is reading it.
    """
    with Database.at(url, home).session() as connection:
        made = catalogue.entry(connection, name)
        info = _info(connection, made)
        catalogue.delete(connection, made)
    return info
