"""Datasets for options that read tables from files: their rows are written to a file once, for as long as they stay as
they are.

STATE/datasets/<name>@<when it was made>-<version>.parquet
"""

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any


class DatasetFiles:
    """The files in a folder.

    Args:
        show: what is known of a dataset; see `Workloads.dataset`.
        write: writes its rows to a file.
        used: whether a job that has not ended names it: its process may be about to read an older file.
    """

    def __init__(
        self,
        folder: Path,
        show: Callable[[str], dict[str, Any]],
        write: Callable[[str, Path], None],
        used: Callable[[str], bool],
    ) -> None:
        self._folder, self._show, self._write, self._used = folder, show, write, used
        self._lock = threading.Lock()

    def path(self, name: str) -> Path:
        """The file of a dataset as it is now.

        Raises:
            NotFound: there is no such dataset.
            ConfigError: it has a field that is no column of a table.
        """
        there = self._show(name)
        made = re.sub(r"\D", "", str(there["created"]))
        path = self._folder / f"{name}@{made}-{there['version']}.parquet"
        with self._lock:
            if not path.exists():
                self._folder.mkdir(mode=0o700, exist_ok=True)
                self._write(name, path)
                if not self._used(name):
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
