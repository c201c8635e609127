"""Shards that the workers of a cluster write themselves, into the run directory that they share with the driver.

Encoding a shard takes milliseconds of a processor, and to have it on disk as many again: for one driver of many workers
too much. A worker writes its shard under a hidden, temporary name, and tells the driver, which renames it. Nothing else
makes it count: a shard of a worker that was given up keeps its temporary name, and is removed at the end of the run, or
when it is opened again.
"""

import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ....core.base import pytree
from ....core.runs import parquet
from ....core.runs.files import TEMPORARY, storage_error, sync
from ..batch import BatchResult, WrittenShard
from .shards import shard_name, table_of


@dataclass(frozen=True, slots=True)
class WorkerShards:
    """What a worker needs to write shards of a run.

    Attributes:
        folder: the run directory, by the path that all nodes see it under.
        identity: the run's.
    """

    folder: str
    identity: str

    def write(self, done: BatchResult, index: np.ndarray) -> BatchResult:
        """The batch with its values on disk; one without values as it is.

        Raises:
            StorageError: it cannot be written.
        """
        if done.values is None:
            return done
        table, note = table_of(done, index)
        name = f".{shard_name(done.start, done.start + done.count)}.{uuid.uuid4().hex[:8]}{TEMPORARY}"
        path = Path(self.folder, name)
        try:
            parquet.write(parquet.sealed(table, self.identity, done.start, note), path)
            sync(path)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise storage_error(path, error) from error
        written = WrittenShard(name, note, table.nbytes, pytree.nbytes(done.values), pytree.varies(done.values))
        return replace(done, values=None, written=written)
