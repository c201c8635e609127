"""Datasets for options that read tables from files: their rows are written to a file once, for as long as they stay as
they are.

STATE/datasets/<name>@<when it was made>-<version>.parquet
"""

import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from .jobs.references import DATASET


class Datasets(Protocol):
    """Who knows the datasets."""

    def dataset(self, name: str) -> dict[str, Any]: ...

    def write_dataset(self, name: str, path: Path) -> None: ...


class DatasetFiles:
    """The files in a folder.

    Args:
        workloads: what there is; knows a dataset, and writes its rows to a file.
        users: the jobs that have not ended and name a reference: their processes may be about to read an older file.
    """

    def __init__(
        self,
        folder: Path,
        workloads: Callable[[], Datasets],
        users: Callable[[str], Sequence[Any]],
    ) -> None:
        self._folder, self._workloads, self._users = folder, workloads, users
        self._lock = threading.Lock()

    def path(self, name: str) -> Path:
        """The file of a dataset as it is now.

        Raises:
            NotFound: there is no such dataset.
            ConfigError: it has a field that is no column of a table.
        """
        there = self._workloads().dataset(name)
        made = re.sub(r"\D", "", str(there["created"]))
        path = self._folder / f"{name}@{made}-{there['version']}.parquet"
        with self._lock:
            if not path.exists():
                self._folder.mkdir(mode=0o700, exist_ok=True)
                self._workloads().write_dataset(name, path)
                if not self._users(f"{DATASET}:{name}"):
                    self._remove(name, path)
        return path

    def forget(self, name: str) -> None:
        """Removes the files of a dataset."""
        with self._lock:
            self._remove(name, None)

    def _remove(self, name: str, but: Path | None) -> None:
        for path in self._folder.glob("*.parquet"):
            if path.name.rpartition("@")[0] == name and path != but:
                path.unlink(missing_ok=True)
