"""Workers whose devices are of two kinds: each kind has a batch size of its own, by its own memory and speed."""

import heapq
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.memory.cost import Cost
from brimful.core.runs.events import Event, Events, Planned
from brimful.engine.distributed.workers import Place
from brimful.engine.map.batch_spans import BatchSizer, BatchSpan
from brimful.engine.map.hosts.local import LocalHosts
from brimful.engine.map.scheduler import Scheduler, batch_plan
from brimful.engine.map.size_search import BatchMeasurement, MemoryExceeded, ProbeFailed
from brimful.engine.map.sources import item_source
from brimful.engine.map.store.ledger import Ledger
from brimful.engine.map.store.status_table import StatusTable

from .mapping import rows, run, same, stamped

GB = 10**9
ITEM = 10**7  # bytes of an item in a batch
MEMORY = {"small": GB, "large": 16 * GB}
SPEED = {"small": 100.0, "large": 1000.0}  # items per second of large batches


def measured(kind: str, span: BatchSpan, memory: int) -> BatchMeasurement:
    """What a batch of that kind of device shows: 0.2 seconds, and some per item."""
    weight = span.stop - span.start
    peak, seconds = ITEM * weight, 0.2 + weight / SPEED[kind]
    return BatchMeasurement(float(weight), seconds, True, peak, memory, span.probe, span.trial, span.beside)


def ran(sizer: BatchSizer, workers: list[str], memory: dict[str, int]) -> Iterator[tuple[str, BatchSpan]]:
    """Batches of workers of these kinds, on a clock."""
    running: list[tuple[float, int, BatchSpan]] = []
    idle, now = set(range(len(workers))), 0.0
    while True:
        for worker in sorted(idle):
            kind = workers[worker]
            if (span := sizer.next(memory[kind], kind=kind)) is not None:
                yield kind, span
                heapq.heappush(running, (now + measured(kind, span, memory[kind]).seconds, worker, span))
                idle.discard(worker)
        if not running:
            return
        now, worker, span = heapq.heappop(running)
        kind = workers[worker]
        sizer.observe(measured(kind, span, memory[kind]), kind)
        idle.add(worker)


def test_each_kind_settles_on_a_size_that_fits_it():
    sizer = BatchSizer(length=10**6, size=16.0, workers=4, kind="small")
    sizer.add_kind("large", 16.0)
    sizes: dict[str, list[int]] = {"small": [], "large": []}
    for kind, span in ran(sizer, ["small", "small", "large", "large"], MEMORY):
        assert ITEM * (span.stop - span.start) <= MEMORY[kind]
        sizes[kind].append(span.stop - span.start)
    assert sum(map(sum, sizes.values())) == 10**6
    assert sizer.states["small"].settled and sizer.states["large"].settled
    assert max(sizes["small"]) <= 100 and max(sizes["large"]) > 800
    assert sum(sizes["large"]) > 5 * sum(sizes["small"])


@given(
    workers=st.lists(st.sampled_from(["small", "large"]), min_size=1, max_size=6),
    length=st.integers(1, 5000),
    memory=st.fixed_dictionaries({"small": st.integers(ITEM, GB), "large": st.integers(ITEM, 16 * GB)}),
)
def test_every_item_is_in_one_batch(workers: list[str], length: int, memory: dict[str, int]):
    sizer = BatchSizer(length=length, size=1.0, workers=len(workers), kind=workers[0])
    spans = sorted((span.start, span.stop) for _, span in ran(sizer, workers, memory))
    assert [start for start, _ in spans] == [0, *(stop for _, stop in spans[:-1])]
    assert spans[-1][1] == length


def test_what_one_kind_shows_says_nothing_of_the_other():
    sizer = BatchSizer(length=10**5, size=100.0, fixed=False, settled=100.0, workers=2, kind="small")
    sizer.add_kind("large", 100.0, settled=1000.0)
    sizer.observe(MemoryExceeded(90.0, False, GB), "small")
    small = sizer.next(GB, kind="small")
    assert small is not None and small.stop <= 63
    large = sizer.next(16 * GB, kind="large")
    assert large is not None and large.stop - large.start == pytest.approx(1000, abs=10)


def test_a_kind_that_joins_later_is_measured_while_the_others_go_on():
    sizer = BatchSizer(length=10**6, size=64.0, settled=500.0, workers=2, kind="large")
    first = sizer.next(16 * GB, kind="small")
    assert first is not None and first.probe and first.stop == 64
    assert sizer.next(16 * GB, kind="small") is None  # until that probe is back
    steady = sizer.next(16 * GB, kind="large")
    assert steady is not None and not steady.probe
    sizer.observe(ProbeFailed(), "small")
    again = sizer.next(16 * GB, kind="small")
    assert again is not None and again.probe


def test_the_plan_the_ledger_and_what_is_remembered_have_the_size_of_each(tmp_path: Path):
    items, remembered, plans = item_source(torch.zeros(100_000)), list[str](), list[Planned]()

    def keep(event: Event) -> None:
        if isinstance(event, Planned):
            plans.append(event)

    sizer = BatchSizer(length=100_000, size=16.0, workers=2, kind="small")
    sizer.add_kind("large", 16.0)
    names = ("1 node, 1 small: 1 GB each", "1 node, 1 large: 16 GB each")
    with Events() as events:
        events.add(keep)
        scheduler = Scheduler(
            items=items,
            sizer=sizer,
            write=lambda done, index: None,
            events=events,
            ledger=(ledger := Ledger(tmp_path / "batches.jsonl")),
            tally=StatusTable(100_000),
            limit=GB,
            gathers=False,
            beside=(1, 1),
            plan=batch_plan("test", items, Cost(0, ITEM), GB, None, names),
            on_settled=lambda cost, kind: remembered.append(kind),
            kinds=("small", "large"),
        )
        for kind in ("small", "large"):
            while not sizer.of(kind).settled:
                span = scheduler.next(MEMORY[kind], kind=kind)
                assert span is not None
                scheduler.observe(measured(kind, span, MEMORY[kind]), kind)
        scheduler.close()
    ledger.close()
    assert remembered == ["small", "large"]
    read = Ledger(tmp_path / "batches.jsonl")
    read.close()
    assert read.settled_of == {kind: sizer.of(kind).capacity(MEMORY[kind]) for kind in ("small", "large")}
    assert read.settled_of["large"] > 5 * read.settled_of["small"]
    first, second = plans[-1].plan["devices"]
    assert first.startswith("1 node, 1 small: 1 GB each, batches of ")
    assert second.startswith("1 node, 1 large: 16 GB each, batches of ")
    assert plans[-1].plan["batch"] <= 100


@pytest.mark.soak
def test_a_run_over_two_kinds_and_its_resumption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    places = [Place("cpu", kind="small"), Place("cpu", kind="large")]
    monkeypatch.setattr(LocalHosts, "places", places)
    monkeypatch.setattr(LocalHosts, "kinds", ("small", "large"))
    result = run(stamped, rows(20_000), device="cpu,cpu", budget="400MB", out=tmp_path / "run")
    (ledger := Ledger(tmp_path / "run" / "batches.jsonl")).close()
    assert ledger.settled_of and set(ledger.settled_of) <= {"small", "large"}
    again = run(stamped, rows(20_000), device="cpu,cpu", budget="400MB", out=tmp_path / "run")
    assert again.done == 0 and same(again.values, result.values)
