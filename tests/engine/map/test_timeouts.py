"""`timeout=`: an item that takes too long is found and flagged, and its neighbors keep their bits."""

import functools
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful import ConfigError, Status, WorkerError
from brimful.engine.map import workers
from brimful.engine.map.sources import LoadedBatch
from brimful.engine.map.timeouts import CallClock, SlowItemSearch, overwritten

from .mapping import rows, run, same, stamped
from .test_stream import streamed
from .test_workers import TWO


@given(st.data(), st.integers(1, 40))
def test_the_search_finds_the_items_that_take_too_long(data: st.DataObject, count: int):
    slow = data.draw(st.sets(st.integers(0, count - 1)))
    limit = data.draw(st.integers(1, count))  # batches of more good items than that take too long as well
    tried, waiting, found = 0, [LoadedBatch(100, count, None)], dict[int, bool]()

    def times_out(part: LoadedBatch, patient: bool) -> bool:
        items = {part.start - 100 + item for item in range(part.count) if item not in part.slow}
        return bool(items & slow) or (len(items) > limit and not patient)

    while waiting:
        batch = waiting.pop()
        if not times_out(batch, False):
            found |= {batch.start - 100 + item: item in batch.slow for item in range(batch.count)}
            continue
        search = SlowItemSearch(batch)
        while not search.split:
            tried += 1
            late = times_out(search.part, search.patient)
            if search.whole and not late:
                break
            (search.timed_out if late else search.passed)()
        if search.split:
            waiting += search.batch.halves()
        else:
            final = search.batch
            found |= {final.start - 100 + item: item in final.slow for item in range(final.count)}
    assert {item for item, flagged in found.items() if flagged} == slow
    assert len(found) == count
    assert tried <= (len(slow) + 1) * (count.bit_length() + 1) ** 2  # a search, in each half that a batch is split into


def test_a_call_may_take_what_others_took_and_the_timeout():
    now = [0.0]
    clock = CallClock(10, lambda: now[0])
    clock.start(0, 5)
    now[0] = 10.5
    assert clock.overdue() == [0]  # nothing is known yet
    clock.forget(0)
    assert clock.overdue() == []
    clock.start(1, 2)
    now[0] += 4
    clock.stop(1)  # two seconds per item
    clock.start(1, 5)
    now[0] += 45
    assert clock.overdue() == []
    clock.pause(3)
    now[0] += 6
    assert clock.overdue() == []
    now[0] += 5
    assert clock.overdue() == [1]
    clock.start(1, 1)
    now[0] += 10.5
    assert clock.overdue() == [1]  # one item never more than the timeout
    clock.start(1, 30, patient=True)
    now[0] += 299
    assert clock.overdue() == []


def test_another_item_stands_in_for_a_slow_one():
    loaded = LoadedBatch(0, 4, {"x": torch.arange(4.0)}, {0: "unreadable"})
    became = overwritten(loaded, (1, 3), 2.5)
    assert became.tree["x"].tolist() == [0, 2, 2, 2]  # pyright: ignore
    assert became.bad == {0: "unreadable"} | dict.fromkeys((1, 3), "it took longer than timeout=2.5 seconds")
    assert overwritten(loaded, (1, 2, 3), 1).tree is None


def hanging(x: torch.Tensor, *, folder: str, items: tuple[int, ...]) -> torch.Tensor:
    """Never returns for some items, and says so in a folder."""
    if np.isin(x[:, 0].numpy(), items).any():
        Path(folder, f"{time.monotonic_ns()}").touch()
        time.sleep(3600)
    return stamped(x) + torch.rand(len(x), 1)


@pytest.fixture
def hung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that functions write to when they hang; by the workers' clock that is when time goes by."""
    folder = tmp_path / "hung"
    folder.mkdir()
    clock = functools.partial(CallClock, clock=lambda: 1e6 * len(list(folder.iterdir())))
    monkeypatch.setattr(workers, "CallClock", clock)
    return folder


@pytest.mark.parametrize(("source", "slow"), [("array", (4, 5)), ("file", (9,))])
def test_items_that_hang_are_flagged_and_the_others_have_their_bits(
    hung: Path, tmp_path: Path, source: str, slow: tuple[int, ...]
):
    items: Any = rows(12)
    if source == "file":
        items = tmp_path / "x.npy"
        np.save(items, rows(12).numpy())
    function = functools.partial(hanging, folder=str(hung), items=slow)
    result = run(function, items, timeout=0.9, batch_size=4, out=tmp_path / "run", device="cpu")
    assert result.status.tolist() == [Status.TIMEOUT if item in slow else Status.OK for item in range(12)]
    assert result.messages == dict.fromkeys(slow, "it took longer than timeout=0.9 seconds")
    good = ~np.isin(np.arange(12), slow)
    without = functools.partial(hanging, folder=str(hung), items=())
    assert same(result.values[good], run(without, rows(12), batch_size=4, device="cpu").values[good])
    assert torch.isnan(result.values[~good]).all()
    spans = [tuple(map(int, path.stem.split("-")[1:])) for path in (tmp_path / "run").glob("shard-*")]
    assert sorted(spans) == [(0, 4), (4, 8), (8, 12)]


def test_a_stream_with_an_item_that_hangs(hung: Path):
    function = functools.partial(hanging, folder=str(hung), items=(3,))
    parts = list(streamed(function, rows(12), batch_size=4, timeout=0.9, device="cpu"))
    assert [part.start for part in parts] == [0, 4, 8]
    assert parts[0].status.tolist() == [0, 0, 0, Status.TIMEOUT]


def test_a_function_that_always_hangs_ends_the_run(hung: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workers, "_IN_A_ROW", 3)
    function = functools.partial(hanging, folder=str(hung), items=tuple(range(50)))
    with pytest.raises(WorkerError, match="3 items in a row took longer than"):
        run(function, rows(50), batch_size=1, timeout=0.9, device="cpu")


@pytest.mark.soak
def test_two_workers_and_real_seconds(tmp_path: Path):
    function = functools.partial(hanging, folder=str(tmp_path), items=(9, 30))
    result = run(function, rows(64), batch_size=8, timeout=5, device=TWO)
    assert np.flatnonzero(result.status).tolist() == [9, 30]


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), float("inf"), "5"])
def test_what_is_no_timeout(wrong: Any):
    with pytest.raises(ConfigError, match="timeout is"):
        run(stamped, rows(4), timeout=wrong)
