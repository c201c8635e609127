"""The status of every item of a map."""

import numpy as np

from ..batch import is_bad


class StatusTable:
    """Status and message of every item, and how many are done."""

    def __init__(self, length: int | None) -> None:
        self._status = np.full(length or 0, -1, dtype=np.int8)
        self.messages: dict[int, str] = {}
        self.done = self.bad = 0

    def add(self, index: np.ndarray, status: np.ndarray, messages: dict[int, str]) -> None:
        """Records a batch; messages are by item index."""
        top = int(index.max()) + 1 if len(index) else 0
        if top > len(self._status):  # a stream of unknown length: grow by doubling
            more = max(top - len(self._status), len(self._status))
            self._status = np.pad(self._status, (0, more), constant_values=-1)
        self._status[index] = status
        self.messages |= messages
        self.done += len(index)
        self.bad += int(np.count_nonzero(is_bad(status)))

    @property
    def status(self) -> np.ndarray:
        return self._status[: self.done]
