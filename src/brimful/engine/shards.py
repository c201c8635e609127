"""The results of a map on disk: one Parquet file a batch. The set of them is what has been finished.

Columns: `item` (the item's index), `status`, `message`, and the values. pandas, polars and DuckDB read the
folder as it is. Each file carries the run's identity, and checksums of its pages.
"""

import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import BrimfulWarning, CorruptError, InputError
from ..files import write_atomic
from . import arrow, trees
from .batch import Status
from .runner import Done

_NAME = re.compile(r"shard-(\d{12})-(\d{12})\.parquet")
OWN = ("item", "status", "message")


class Shards:
    """The shards of one run.

    Args:
        folder: the run directory.
        identity: the run's; a shard that carries another is not taken.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder, self._identity = folder, identity

    def write(self, done: Done, index: np.ndarray) -> None:
        """Writes a finished batch; on disk, whole, when this returns."""
        columns: dict[str, pa.Array] = {
            "item": pa.array(index.astype(np.int64)),
            "status": pa.array(done.status),
            "message": pa.array([done.messages.get(place) for place in range(done.count)], pa.string()),
        }
        note = b""
        if done.values is not None:
            values, note = arrow.to_columns(done.values)
            if clash := set(values) & set(OWN):
                raise InputError(
                    f"the result has a part named {sorted(clash)[0]!r}, a name the table keeps for itself; rename it"
                )
            columns |= values
        table = pa.table(columns).replace_schema_metadata(arrow.schema_note(note, run=self._identity))
        path = self.folder / f"shard-{done.start:012d}-{done.start + done.count:012d}.parquet"
        write_atomic(path, lambda temporary: _write(table, temporary))

    def finished(self) -> list[tuple[int, int]]:
        """The ranges of positions that intact shards hold, in order. A damaged shard is set aside, with a
        warning, and its items are done again."""
        found = []
        for path in self.paths():
            start, stop = _range(path)
            reason = self._damage(path, stop - start)
            if reason is None:
                found.append((start, stop))
            else:
                path.rename(path.with_suffix(".damaged"))
                warnings.warn(
                    f"{path.name} is damaged ({reason}); it is set aside and its items are done again",
                    BrimfulWarning,
                    stacklevel=2,
                )
        return found

    def _damage(self, path: Path, rows: int) -> str | None:
        try:
            table = pq.read_table(path, columns=list(OWN), page_checksum_verification=True)
        except (pa.ArrowException, OSError) as error:
            return str(error).splitlines()[0]
        if (table.schema.metadata or {}).get(b"brimful.run") != self._identity.encode():
            return "it belongs to another run"
        return None if table.num_rows == rows else f"it holds {table.num_rows} rows instead of {rows}"

    def paths(self) -> list[Path]:
        """The shard files, in order of their positions."""
        return sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))

    def tables(self, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """The shards one by one, in order of their positions."""
        for path in self.paths():
            try:
                yield pq.read_table(path, columns=columns, page_checksum_verification=True)
            except (pa.ArrowException, OSError) as error:
                raise CorruptError(
                    f"{path} is damaged: {error}. Delete it and run the same command again to redo its items."
                ) from error

    def statuses(self) -> Iterator[tuple[np.ndarray, np.ndarray, dict[int, str]]]:
        """Index, status and messages of each shard."""
        for table in self.tables(list(OWN)):
            index, status = table["item"].to_numpy(), table["status"].to_numpy()
            flagged = np.flatnonzero(status != Status.OK)
            texts = table["message"].take(pa.array(flagged)).to_pylist()
            yield (
                index,
                status,
                {int(index[row]): text for row, text in zip(flagged, texts, strict=True) if text},
            )

    def values(self) -> trees.Tree | None:
        """All values, in the order of the items; None when there are none."""
        index, parts, missing = [], [], []
        for table in self.tables():
            items = table["item"].to_numpy()
            if (table.schema.metadata or {}).get(b"brimful.tensors"):
                index.append(items)
                parts.append(arrow.from_columns(table))
            else:
                missing.append(items)
        return trees.assemble(parts, index, missing)


def _write(table: pa.Table, path: Path) -> None:
    pq.write_table(
        table,
        path,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )


def _range(path: Path) -> tuple[int, int]:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1]), int(match[2])
