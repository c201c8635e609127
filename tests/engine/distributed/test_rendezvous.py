"""Ranks that meet at a store in which earlier ranks have left their values. Threads stand in for ranks."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import HashStore

from brimful import WorkerError
from brimful.engine.distributed.rendezvous import agree_on_name


def meet(store: HashStore, late: int | None = None, ranks: int = 3) -> set[str]:
    """The names that the ranks come to have."""

    def one(rank: int) -> str:
        time.sleep(0.2 if rank == late else 0.0)
        return agree_on_name(store, rank, ranks, timeout=30)

    with ThreadPoolExecutor(ranks) as threads:
        return set(threads.map(one, range(ranks)))


@pytest.mark.parametrize("late", [None, 0, 2])
def test_after_a_restart_the_name_is_another_and_the_same_for_all(late: int | None):
    """Also where one comes late, and the others find what the process before it wrote."""
    store = HashStore()
    names = [meet(store, late) for _ in range(3)]
    assert [len(name) for name in names] == [1, 1, 1]
    assert len(set.union(*names)) == 3


def test_what_ended_ranks_confirmed_does_not_count():
    store = HashStore()
    store.set("brimful/ranks", json.dumps(["old", ["a", "b"]]))
    store.set("brimful/old/counts", "yes")
    with pytest.raises(WorkerError, match=r"rank 1 of 2 has waited 0\.2 seconds"):
        agree_on_name(store, 1, 2, timeout=0.2)


def test_another_number_of_ranks_can_follow():
    store = HashStore()
    meet(store, ranks=4)
    assert len(meet(store, ranks=2)) == 1
    assert len(meet(store, ranks=3)) == 1
