"""Where ranks that torchrun started meet: a key-value store that its agent keeps over restarts.

What ranks of an earlier round wrote is still in it: addresses of processes that have ended, values that count no more.
So the ranks first agree on a name that is new, and keep all that they exchange under it. Every rank writes a number of
its own; the first rank writes a list of all numbers that it sees, with a name; a rank in whose list its own number is
confirms it; and once all have, the name counts. A list that holds the number of a rank that has ended is confirmed by
nobody, and the first rank writes another as soon as the new number is there.
"""

import datetime
import json
import time
import uuid

from torch.distributed import PrefixStore, Store, TCPStore

from ...core.base.errors import WorkerError

_POLL = 0.02


def torchrun_store(address: str, port: int, rank: int, ranks: int, timeout: float) -> Store:
    """The store of torchrun's agent, as these ranks alone see it."""
    limit = datetime.timedelta(seconds=timeout)
    store = TCPStore(address, port, ranks, is_master=False, timeout=limit)
    return PrefixStore(agree_on_name(store, rank, ranks, timeout), store)


def agree_on_name(store: Store, rank: int, ranks: int, timeout: float) -> str:
    """A name that all ranks that are there now have, and no earlier ones had.

    Raises:
        WorkerError: not all came in time.
    """
    until, own = time.monotonic() + timeout, uuid.uuid4().hex
    store.set(f"brimful/rank/{rank}", own)
    listed: tuple[str, list[str]] = ("", [])
    while time.monotonic() < until:
        if rank == 0:
            numbers = [_text(store, f"brimful/rank/{other}") for other in range(ranks)]
            if all(numbers) and numbers != listed[1]:
                listed = uuid.uuid4().hex, numbers
                store.set("brimful/ranks", json.dumps(listed))
        elif text := _text(store, "brimful/ranks"):
            listed = json.loads(text)
        name, numbers = listed
        if len(numbers) == ranks and numbers[rank] == own:
            store.set(f"brimful/{name}/confirmed/{rank}", "yes")
            if rank == 0 and store.check([f"brimful/{name}/confirmed/{other}" for other in range(ranks)]):
                store.set(f"brimful/{name}/counts", "yes")
            if store.check([f"brimful/{name}/counts"]):
                return f"brimful/{name}"
        time.sleep(_POLL)
    raise WorkerError(
        f"rank {rank} of {ranks} has waited {timeout:g} seconds for the others. Start the same command on every node"
    )


def _text(store: Store, key: str) -> str:
    return store.get(key).decode() if store.check([key]) else ""
