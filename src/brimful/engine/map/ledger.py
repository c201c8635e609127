"""The ledger of a map: which cuts were made, and on what size they settled, so that a resumed run cuts alike.

Finished cuts are the shards themselves; this file is written ahead of the work, one line a cut. Where a batch
did not fit and was cut in two, the later lines replace the earlier one.
"""

import json
from pathlib import Path
from typing import Any, TextIO

from ...core.runs.files import cut_torn_line, storage_error

LEDGER = "batches.jsonl"


class Ledger:
    """An append-only file of cuts.

    Attributes:
        settled: the size an earlier run settled on; None if it did not come so far.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cuts: dict[int, int] = {}
        self._file: TextIO | None = None
        self.settled: float | None = None
        try:
            cut_torn_line(path)
            if path.exists():
                for line in path.read_bytes().splitlines():
                    self._read(line)
        except OSError as error:
            raise storage_error(path, error) from error

    def _read(self, line: bytes) -> None:
        try:
            record = json.loads(line)
            if "settled" in record:
                self.settled = float(record["settled"])
            else:
                self._cuts[int(record["start"])] = int(record["stop"])
        except (ValueError, KeyError, TypeError):
            return  # damaged: that cut is then made anew, which costs no more than its time

    def unfinished(self, finished: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], int]:
        """The cuts that were made and not finished, in order, and the position where new ones begin."""
        covered = dict(finished)
        position, pending = 0, []
        while True:
            if position in covered:
                position = covered[position]
            elif position in self._cuts:
                following = [start for start in covered if start > position]
                stop = min([self._cuts[position], *following])
                pending.append((position, stop))
                position = stop
            elif any(start > position for start in covered):
                stop = min(start for start in covered if start > position)
                pending.append((position, stop))
                position = stop
            else:
                return pending, position

    def add(self, start: int, stop: int) -> None:
        """Notes a cut that is about to be run."""
        if self._cuts.get(start) == stop:
            return
        self._cuts[start] = stop
        self._append({"start": start, "stop": stop})

    def settle(self, size: float) -> None:
        """Notes the size that the growing ended on."""
        self._append({"settled": size})

    def _append(self, record: dict[str, Any]) -> None:
        try:
            if self._file is None:
                self._file = self._path.open("a", encoding="utf-8")
            self._file.write(json.dumps(record) + "\n")
            self._file.flush()
        except OSError as error:
            raise storage_error(self._path, error) from error

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
