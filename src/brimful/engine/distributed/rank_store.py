"""What ranks tell each other beside their collectives: small values, and why one of them failed.

It goes through the key-value store at which they met. Waiting for a value ends at once where a rank has failed, with
that rank's own words, so that a mistake on one node is read on all.
"""

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

from torch.distributed import PrefixStore, Store

from ...core.base.errors import WorkerError
from ...core.memory.oom import error_line

START = 600.0
"""Seconds that ranks wait for each other before the first step: one may have much to read."""

_POLL = 0.05
_LAST_WORDS = 3.0  # seconds for the reason to come after the connection was lost


class RankStore:
    """The store of the ranks of one run.

    Args:
        store: at which they met.
        rank: this one.
        ranks: how many there are.
        run: the number of the run in this process, the same on all ranks.
    """

    def __init__(self, store: Store, rank: int, ranks: int, run: int) -> None:
        self._store, self.rank, self.ranks = PrefixStore(f"brimful/{run}", store), rank, ranks

    def gather(self, name: str, value: Any) -> list[Any]:
        """Every rank's value, by rank; values are JSON. Each name serves once."""
        self._set(f"{name}/{self.rank}", value)
        return [self._get(f"{name}/{rank}") for rank in range(self.ranks)]

    def broadcast(self, name: str, value: Any = None) -> Any:
        """The first rank's value, on all; each name serves once."""
        if self.rank == 0:
            self._set(name, value)
        return self._get(name)

    def report_failure(self, error: BaseException) -> None:
        """Says why this rank failed. The first reason counts: what follows on other ranks is only its effect."""
        if isinstance(error, WorkerError):
            return
        reason = f"rank {self.rank} on {socket.gethostname()} failed: {error_line(error, named=True)}"
        with contextlib.suppress(RuntimeError):
            self._store.compare_set("failure", "", json.dumps(reason))

    def failure(self, wait: float = _LAST_WORDS) -> str | None:
        """Why a rank failed, where one has said so within some seconds."""
        until = time.monotonic() + wait
        with contextlib.suppress(RuntimeError):
            while not (failed := self._store.check(["failure"])) and time.monotonic() < until:
                time.sleep(_POLL)
            return json.loads(self._store.get("failure")) if failed else None
        return None

    def _set(self, name: str, value: Any) -> None:
        try:
            self._store.set(name, json.dumps(value))
        except RuntimeError as error:
            raise WorkerError(f"the node where the ranks meet no longer answers ({error})") from error

    def _get(self, name: str) -> Any:
        until = time.monotonic() + START
        try:
            while not self._store.check([name]):
                if self._store.check(["failure"]):
                    raise WorkerError(f"{json.loads(self._store.get('failure'))}. This rank ends with it")
                if time.monotonic() > until:
                    raise WorkerError(
                        f"rank {self.rank} of {self.ranks} has waited {START:g} seconds for the others to start. Look "
                        "at what they print; start the same command on every node"
                    )
                time.sleep(_POLL)
            return json.loads(self._store.get(name))
        except RuntimeError as error:
            raise WorkerError(f"the node where the ranks meet no longer answers ({error})") from error


_current: list[RankStore] = []


@contextlib.contextmanager
def current(store: RankStore) -> Iterator[None]:
    """While the ranks of a store work together."""
    _current.append(store)
    try:
        yield
    finally:
        _current.remove(store)


def of_this_run() -> RankStore | None:
    """The store of the ranks that work together now; None where this process is alone."""
    return _current[-1] if _current else None


def failure() -> str | None:
    """Why a rank failed, where one has said so."""
    return _current[-1].failure() if _current else None
