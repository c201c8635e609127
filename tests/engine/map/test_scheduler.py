"""The work of a map in this process, without a run."""

import torch

from brimful.core.memory.cost import Cost
from brimful.core.runs.events import Events
from brimful.engine.map.batch_sizer import Cutter
from brimful.engine.map.scheduler import LocalWork, Tally, batch_plan
from brimful.engine.map.sources import ArrayItems


def test_what_a_batch_took_that_ran_out_of_memory_is_remembered():
    items, told = ArrayItems(torch.zeros(1000, 4)), list[Cost]()
    cost = Cost(10**6, 1000)
    cutter = Cutter(length=1000, size=100.0, cost=cost, settled=100.0)
    work = LocalWork(
        items=items,
        cutter=cutter,
        keep=lambda done, index: None,
        events=Events(),
        ledger=None,
        tally=Tally(1000),
        limit=10**7,
        gathers=False,
        beside=(1, 1),
        plan=batch_plan("work", items, cost, 10**7, None, ("cpu",)),
        on_settled=told.append,
    )
    work.full(100.0, pressed=True, limit=10**7)  # neighbours had the memory
    assert not told
    work.full(100.0, pressed=False, limit=10**7)
    assert told[0].at(100) == 10**7
    work.full(50.0, pressed=False, limit=10**7)  # a part of it
    assert len(told) == 1
    work.close()
