"""The scheduler of a map in this process, without a run."""

import torch

from brimful.core.memory.cost import Cost
from brimful.core.runs.events import Events
from brimful.engine.map.batch_spans import BatchSizer
from brimful.engine.map.scheduler import Scheduler, StatusTable, batch_plan
from brimful.engine.map.size_search import MemoryExceeded
from brimful.engine.map.sources import item_source


def test_what_a_batch_took_that_ran_out_of_memory_is_remembered():
    items, remembered = item_source(torch.zeros(1000, 4)), list[Cost]()
    cost = Cost(10**6, 1000)
    sizer = BatchSizer(length=1000, size=100.0, cost=cost, settled=100.0)
    scheduler = Scheduler(
        items=items,
        sizer=sizer,
        write=lambda done, index: None,
        events=Events(),
        ledger=None,
        tally=StatusTable(1000),
        limit=10**7,
        gathers=False,
        beside=(1, 1),
        plan=batch_plan("work", items, cost, 10**7, None, ("cpu",)),
        on_settled=lambda cost, kind: remembered.append(cost),
    )
    scheduler.observe(MemoryExceeded(100.0, contended=True, available=10**7))  # neighbors had the memory
    assert not remembered
    scheduler.observe(MemoryExceeded(100.0, contended=False, available=10**7))
    assert remembered[0].at(100) == 10**7
    scheduler.observe(MemoryExceeded(50.0, contended=False, available=10**7))  # a part of it
    assert len(remembered) == 1
    scheduler.close()
