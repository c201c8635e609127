"""The window tier: the batches of the other tiers, from chunks read ahead, in bounded memory."""

import itertools
import json
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful import BudgetError, ConfigError, InputError
from brimful.data import Loader, Subset
from brimful.data.array_dataset import ArrayDataset
from brimful.data.dataset import Field
from brimful.data.tiers.window import CHUNKS_AHEAD

from ..datasets import none_left, run, same, small

pytestmark = pytest.mark.usefixtures("one_thread")

TIERS = ("device", "pinned", "window")


class Chunks(ArrayDataset):
    """A source that is read by chunks, and remembers which."""

    def __init__(self, tree: Any, chunk_rows: int) -> None:
        super().__init__(tree)
        self.chunk_rows, self.asked = chunk_rows, []
        self.fails: dict[int, Exception] = {}

    def schema(self) -> dict[str, Field]:
        return self.fields

    def read(self, chunk: int) -> dict[str, Any]:
        self.asked.append(chunk)
        if chunk in self.fails:
            raise self.fails[chunk]
        return self.gather(np.arange(chunk * self.chunk_rows, min(len(self), (chunk + 1) * self.chunk_rows)))


def joined(lists: Iterable[list[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(lists))


SIZES = {
    "samples": st.integers(1, 60),
    "size": st.integers(1, 30),
    "rows": st.integers(1, 9),
    "window": st.integers(1, 70),
    "seed": st.integers(0, 2**64 - 1),
    "ranks": st.integers(1, 4),
}


@settings(max_examples=20)
@given(
    **SIZES,
    shuffle=st.booleans(),
    bucket=st.integers(0, 3),
    balance=st.booleans(),
    ragged=st.sampled_from(["pad", "packed"]),
)
def test_the_same_batches_in_every_tier_and_from_all_ranks(
    samples, size, rows, window, seed, ranks, shuffle, bucket, balance, ragged
):
    data = small(samples)
    options = {"batch_size": size, "seed": seed, "shuffle": shuffle, "bucket": bucket, "ragged": ragged}
    options |= {"window": window, "chunk_rows": rows, "balance": balance and bucket > 0}
    whole = run(data, tier="device", **options)
    expected = [[whole.index(epoch, batch).tolist() for batch in range(len(whole))] for epoch in range(2)]
    together: list[list[list[int]]] = [[[] for _ in range(len(whole))] for _ in range(2)]
    for rank in range(ranks):
        loaders = [run(data, tier=tier, rank=rank, ranks=ranks, **options) for tier in TIERS]
        for epoch in range(2):
            first, *others = (list(each.epoch(epoch)) for each in loaders)
            assert all(same(first, other) for other in others)
            for seen, batch in zip(together[epoch], first, strict=True):
                seen += batch["y"].tolist()
                assert torch.equal(batch["x"], data["x"][batch["y"]])
    assert together == expected
    if window >= samples:
        assert same(list(run(data, **{**options, "window": None}).epoch(0)), list(whole.epoch(0)))


@settings(max_examples=12)
@given(
    **SIZES,
    bucket=st.integers(0, 2),
    balance=st.booleans(),
    tiers=st.tuples(*[st.sampled_from(TIERS)] * 2),
    drop=st.booleans(),
)
def test_a_state_resumes_at_every_batch(samples, size, rows, window, seed, ranks, bucket, balance, tiers, drop):
    data, size = small(samples), min(size, samples)
    options = {"batch_size": size, "seed": seed, "bucket": bucket, "window": window, "chunk_rows": rows}
    options |= {"drop_last": drop, "balance": balance and bucket > 0}
    reference = [list(run(data, tier="device", **options).epoch(epoch)) for epoch in range(3)]
    first = run(data, tier=tiers[0], **options)
    states = []
    for _ in range(2):
        for _ in first:
            states.append(json.loads(json.dumps(first.state())))
    for number, state in enumerate(states[:: max(1, len(states) // 6)]):
        number *= max(1, len(states) // 6)
        epoch, batch = divmod(number + 1, len(first))
        rest: list[list[int]] = [[] for _ in range(len(first) - batch)]
        for rank in range(ranks):
            other = run(data, tier=tiers[1], rank=rank, ranks=ranks, **options)
            other.restore(state)
            assert other.position == (epoch, batch)
            for seen, part in zip(rest, other, strict=True):
                seen += part["y"].tolist()
        assert rest == [part["y"].tolist() for part in reference[epoch][batch:]]


@settings(max_examples=12)
@given(
    samples=st.integers(30, 90), size=st.integers(12, 40), rows=st.integers(1, 4), window=st.integers(1, 100),
    shards=st.sampled_from([2, 3, 4, 6]), shuffle=st.booleans(), ranks=st.integers(1, 6), tier=st.sampled_from(TIERS),
)  # fmt: skip
def test_shards_give_the_same_batches_for_any_ranks_and_tier(samples, size, rows, window, shards, shuffle, ranks, tier):
    data = small(samples)
    options = {"batch_size": size, "seed": 3, "window": window, "chunk_rows": rows, "shards": shards}
    try:
        whole = [batch["y"].tolist() for batch in run(data, tier="pinned", shuffle=shuffle, **options).epoch(1)]
    except ConfigError as error:
        assert "fewer shards" in str(error)
        return
    assert sorted(joined(whole)) == list(range(samples))
    parts = [run(data, tier=tier, rank=rank, ranks=ranks, shuffle=shuffle, **options) for rank in range(ranks)]
    read = [[batch["y"].tolist() for batch in part.epoch(1)] for part in parts]
    assert [joined(pieces) for pieces in zip(*read, strict=True)] == whole
    if shards % ranks == 0:
        other = [set(joined(batch["y"].tolist() for batch in part.epoch(2))) for part in parts]
        assert [set(joined(part)) for part in read] == other  # a rank has the same samples in every epoch


def test_ranks_read_and_hold_only_their_shard():
    for rank in range(2):
        rows = Chunks({"x": torch.zeros(64, 100), "y": torch.arange(64)}, 4)
        options = {"batch_size": 16, "rank": rank, "ranks": 2, "shards": 2}
        windowed = run(rows, tier="window", window=24, **options)
        assert all(batch["y"].min() >= 32 * rank and batch["y"].max() < 32 * rank + 32 for batch in windowed)
        assert set(rows.asked) == set(range(8 * rank, 8 * rank + 8))
        whole = run(Subset(rows, range(64)), tier="device", batch_size=16)
        half = run(Subset(rows, range(64)), tier="device", chunk_rows=4, **options)
        assert half.plan.predicted < 0.6 * whole.plan.predicted


def test_chunks_are_read_once_per_epoch_and_no_further_ahead_than_planned():
    rows = Chunks(torch.arange(400), 10)
    batches = run(rows, tier="window", window=70, batch_size=10, num_workers=1)
    started = batches.epoch(0)
    next(started)
    time.sleep(0.05)
    assert len(rows.asked) <= 4 + CHUNKS_AHEAD + 4  # the half window, what is ahead, and two batches on their way
    list(started)
    assert sorted(rows.asked[:40]) == list(range(40))
    began = rows.asked[40:]  # the next epoch's first chunks, in the slots that are free
    assert len(began) <= 3
    list(batches.epoch(1))
    assert sorted(rows.asked[40:80]) == list(range(40))
    assert none_left()


def test_memory_is_that_of_the_window(tmp_path: Path):
    width = 100_000
    file = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.uint8, (400, width))
    file[:] = np.arange(400)[:, None] % 251
    file.flush()
    batches = run(tmp_path / "x.npy", budget="15MB", tier="window", window=50, chunk_rows=10, batch_size=4)
    assert batches.plan.predicted < 14e6
    assert "window" in batches.plan.explain() and "chunks ahead" in batches.plan.explain()
    seen = [int(row[0]) for batch in batches.epoch(0) for row in batch]
    assert sorted(seen) == sorted(number % 251 for number in range(400))
    with pytest.raises(BudgetError, match=r"11\.00 MB fixed"):
        run(tmp_path / "x.npy", budget="5MB", tier="window", window=50, chunk_rows=10, batch_size=4)


def test_a_parquet_file_larger_than_memory_gets_a_window_and_a_state_brings_it_along(tmp_path: Path):
    x = np.arange(300_000)
    pq.write_table(pa.table({"x": x}), tmp_path / "x.parquet", row_group_size=1000)
    small_one = run(tmp_path / "x.parquet", budget="1MB", batch_size=1000)
    assert small_one.plan.tier == "window"
    epoch = [batch["x"] for batch in small_one.epoch(0)]
    assert np.array_equal(np.sort(torch.cat(epoch).numpy()), x)
    started = small_one.epoch(0)
    next(started)
    state = small_one.state()
    assert state["chunk_rows"] == 1000 and 1000 <= state["window"] < 300_000
    started.close()  # pyright: ignore[reportAttributeAccessIssue]
    roomy = run(tmp_path / "x.parquet", budget="100MB", batch_size=1000)
    assert roomy.plan.tier == "device"
    roomy.restore(state)
    assert all(torch.equal(one, two["x"]) for one, two in zip(epoch[1:], roomy, strict=True))
    full = run(tmp_path / "x.parquet", budget="100MB", batch_size=1000).state()
    with pytest.raises(BudgetError, match="another window"):
        run(tmp_path / "x.parquet", budget="1MB", batch_size=1000).restore(full)


def test_a_split_of_a_parquet_file_is_read_by_ranges(tmp_path: Path):
    pq.write_table(pa.table({"x": np.arange(20_000)}), tmp_path / "x.parquet", row_group_size=500)
    index = np.sort(np.random.default_rng(0).permutation(20_000)[:16_000])
    subset = Subset(tmp_path / "x.parquet", index)
    batches = run(subset, tier="window", window=2000, chunk_rows=500, batch_size=100)
    assert np.array_equal(np.sort(torch.cat([batch["x"] for batch in batches]).numpy()), index)
    assert subset._rows._arrays is None  # pyright: ignore[reportAttributeAccessIssue]
    assert same(list(batches.epoch(1)), list(run(subset, window=2000, chunk_rows=500, batch_size=100).epoch(1)))


@pytest.mark.parametrize("when", [0, 5, 19])
def test_an_error_of_the_source_reaches_the_loop_and_the_next_epoch_begins_anew(when: int):
    rows = Chunks(torch.arange(200), 10)
    order = run(rows, tier="window", window=50)._order.shard(0).chunk_order(0)
    rows.fails = {int(order[when]): OSError("the disk is gone")}
    batches = run(rows, tier="window", window=50)
    seen = []
    with pytest.raises(OSError, match="the disk is gone"):
        for batch in batches.epoch(0):
            seen += batch.tolist()
    assert len(seen) == len(set(seen)) < 200
    assert none_left()
    rows.fails = {}
    assert same(list(batches.epoch(0)), list(run(rows, tier="pinned", window=50).epoch(0)))


def test_an_error_in_a_chunk_of_the_next_epoch_is_that_epochs():
    rows = Chunks(torch.arange(200), 10)
    batches = run(rows, tier="window", window=50)
    first = int(batches._order.shard(0).chunk_order(1)[0])
    seen = 0
    for _ in batches.epoch(0):
        seen += 1
        if first in rows.asked:
            rows.fails = {first: OSError("gone")}
    assert seen == 50
    with pytest.raises(OSError, match="gone"):
        list(batches.epoch(1))


class Changing(Chunks):
    """A source whose chunk 3 is another by the time it is read."""

    change: Any = None

    def read(self, chunk: int) -> dict[str, Any]:
        fields = super().read(chunk)
        return {name: self.change(part) for name, part in fields.items()} if chunk == 3 else fields


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda part: part[:-1], "chunk 3 has 9 rows"),
        (lambda part: part.double(), "torch.float64"),
        (lambda part: part[:, :1], r"\(1,\)"),
    ],
)
def test_a_source_that_changes_is_refused(change: Any, reason: str):
    rows = Changing(torch.zeros(100, 2), 10)
    rows.change = change
    with pytest.raises(InputError, match=f"{reason}.*the data has changed"):
        list(run(rows, tier="window", window=30))
    assert none_left()


def test_nan_comes_through_and_an_empty_source_is_refused():
    x = torch.arange(40.0)
    x[7] = float("nan")
    batches = run(Chunks(x, 4), tier="window", window=12)
    assert torch.cat(list(batches)).isnan().sum() == 1
    with pytest.raises(InputError, match="no samples"):
        run(torch.zeros(0), tier="window")


def test_a_loop_that_is_left_or_blocked_ends():
    gate = threading.Event()

    class Slow(Chunks):
        def read(self, chunk: int) -> dict[str, Any]:
            if len(self.asked) > 12:
                gate.wait(20)
            return super().read(chunk)

    batches = run(Slow(torch.arange(400), 10), tier="window", window=50)
    for _ in batches.epoch(0):
        break
    gate.set()
    assert none_left()


def test_options_that_exclude_each_other():
    for wrong, words in (
        ({"window": 0}, "window is 0"),
        ({"chunk_rows": 0}, "chunk_rows is 0"),
        ({"shards": 0}, "shards is 0"),
        ({"shards": 4, "chunk_rows": 50}, "fewer shards"),
        ({"preload_to_gpu": True, "tier": "window"}, "exclude each other"),
    ):
        with pytest.raises(ConfigError, match=words):
            run(torch.arange(100), **wrong)
    with pytest.raises(ConfigError, match="chunks of 10 rows"):
        run(Chunks(torch.arange(100), 10), chunk_rows=20)


def test_a_state_of_another_window_or_number_of_shards_is_refused():
    def make(**options: Any) -> Loader:
        return run(torch.arange(100), **{"chunk_rows": 10, "window": 30, **options})

    state = make().state()
    for change in ({"window": 50}, {"chunk_rows": 5}, {"shards": 2, "batch_size": 40}):
        with pytest.raises(ConfigError, match="would not be the same"):
            make(**change).restore(state)
    old = {
        name: value
        for name, value in run(torch.arange(100)).state().items()
        if name not in ("window", "chunk_rows", "shards")
    }
    run(torch.arange(100)).restore(old)
    make(window=31).restore(state)  # of as many chunks


def test_a_window_may_be_given_in_bytes():
    batches = run(torch.zeros(1000, 25), window="20kB", chunk_rows=10)
    assert batches.state()["window"] == 200
