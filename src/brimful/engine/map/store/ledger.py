"""The ledger of a map: how the items were divided into batches, and the size settled on, so that a resumed run divides
them in the same way.

Finished batches are the shards themselves; this file is written before the work, one line per batch. Where a batch did
not fit and was split, the later lines replace the earlier one.
"""

import bisect
import contextlib
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ....core.runs.events import JsonLines

LEDGER = "batches.jsonl"


class Ledger:
    """An append-only file of batches; close it when done.

    Attributes:
        settled: the size an earlier run settled on; None if it did not come so far.
        settled_of: the same by kind of device.
    """

    def __init__(self, path: Path) -> None:
        self._file = JsonLines(path)
        self._stops: dict[int, int] = {}
        self.settled: float | None = None
        self.settled_of: dict[str, float] = {}
        for record in _records(path.read_bytes().splitlines()):
            # A damaged line costs no more than its batch's time: that part is divided anew.
            with contextlib.suppress(ValueError, KeyError, TypeError):
                if "settled" in record:
                    settled = float(record["settled"])
                    if math.isfinite(settled) and settled > 0:
                        self.settled = self.settled_of[str(record.get("kind", ""))] = settled
                elif 0 <= (start := int(record["start"])) < (stop := int(record["stop"])):
                    self._stops[start] = stop

    def unfinished(self, finished: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], int]:
        """The batches that were begun and not finished, in order, and the position where new ones begin."""
        covered, pending, position = dict(finished), [], 0
        starts = sorted(covered)
        while True:
            if position in covered:
                position = covered[position]
                continue
            after = bisect.bisect_right(starts, position)
            stops = starts[after : after + 1]
            if position in self._stops:
                stops.append(self._stops[position])
            if not stops:
                return pending, position
            pending.append((position, min(stops)))
            position = min(stops)

    def add(self, start: int, stop: int) -> None:
        """Records a batch that is about to be run."""
        self.add_all([(start, stop)])

    def add_all(self, spans: Iterable[tuple[int, int]]) -> None:
        """Records batches that are about to be run, in one write."""
        new = [(start, stop) for start, stop in spans if self._stops.get(start) != stop]
        self._stops.update(new)
        self._file.write(*({"start": start, "stop": stop} for start, stop in new))

    def record_size(self, size: float, kind: str = "") -> None:
        """Records the batch size that the search ended with, on a kind of device."""
        self._file.write({"settled": size, "kind": kind})

    def close(self) -> None:
        self._file.close()


def _records(lines: list[bytes]) -> Iterator[Any]:
    """What the lines say; one that cannot be read is left out. All at once takes a quarter of the time."""
    try:
        yield from json.loads(b"[%b]" % b",".join(lines))
    except (ValueError, RecursionError):
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                yield json.loads(line)
