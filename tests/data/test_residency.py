"""The tier: chosen by arithmetic, before anything is loaded, and explained."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful import BudgetError
from brimful.core.memory.plan import Plan
from brimful.data import Ragged, Subset, source
from brimful.data.dataset import Dataset, Field
from brimful.data.residency import Room, TierOptions, plan_tier, room
from brimful.data.shuffle.order import Order

from .datasets import run, same, small

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
MB = 10**6


def planned(rows: Dataset, order: Order, room: Room, tier: str = "auto", ranks: int = 1, **options: Any) -> Plan:
    return plan_tier(rows, order, room, TierOptions(tier, **options), ranks)[0]


class Described(Dataset):
    """A dataset that exists only as a description."""

    def __init__(self, samples: int, width: int, held: int = 0) -> None:
        self._samples, self.held = samples, held
        self.fields = {"x": Field(torch.uint8, (width,))}

    def __len__(self) -> int:
        return self._samples


@pytest.mark.parametrize("device", [CPU, GPU])
def test_all_rows_on_the_device_where_they_fit_and_batches_otherwise(device: torch.device):
    rows, order = Described(1000, 100_000), Order(1000, 10)
    ample = planned(rows, order, Room(device, 200 * MB))
    assert (ample.tier, ample.batch, ample.steps, ample.items) == ("device", 10, 100, 1000)
    assert 100 * MB < ample.predicted < 103 * MB
    assert [each.reason for each in ample.rejected] == ["fits, but device is faster"]
    tight = planned(rows, order, Room(device, 50 * MB))
    assert (tight.tier, tight.batch, tight.steps) == ("pinned", 10, 100)
    assert tight.predicted == 4 * MB
    assert [each.reason for each in tight.rejected] == ["all of it at once is over the budget"]


@given(
    st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**4), st.integers(1000, 10**12), st.integers(1, 8)
)
def test_a_plan_is_within_the_budget_or_there_is_none(samples: int, width: int, size: int, budget: int, ranks: int):
    rows, order = Described(samples, width), Order(samples, size)
    try:
        plan = planned(rows, order, Room(GPU, budget), ranks=ranks)
    except BudgetError:
        assert width * min(samples, -(-size // ranks)) * 4 * 1.1 >= budget * 0.99
        return
    assert plan.predicted <= plan.cost.guarded(samples if plan.tier == "device" else 1) <= budget
    needed = rows.nbytes + 16 * samples  # with the order of an epoch
    assert plan.tier == "device" or needed * 1.1 > budget * 0.5 or plan.predicted * 10 >= budget


def test_ranks_need_room_for_their_part_of_a_batch_only():
    rows, order = Described(1000, 100_000), Order(1000, 800)
    assert planned(rows, order, Room(GPU, 50 * MB), ranks=8).tier == "pinned"
    with pytest.raises(BudgetError):
        planned(rows, order, Room(GPU, 50 * MB), ranks=4)


def test_the_explanation_says_where_and_why():
    text = planned(Described(1000, 100_000), Order(1000, 10), Room(GPU, 50 * MB, "1.00 GB reserved")).explain()
    for words in ("1,000 samples, 100 MB, beside 1.00 GB reserved", "data tier", "pinned", "4.00 MB of 50.00 MB",
                  "100 steps", "all of it at once is over the budget"):  # fmt: skip
        assert words in text


def test_a_tier_that_is_asked_for():
    rows, order = Described(1000, 100_000), Order(1000, 10)
    plan = planned(rows, order, Room(GPU, 200 * MB), tier="pinned")
    assert plan.tier == "pinned"
    assert [(each.strategy, each.reason) for each in plan.rejected] == [("device", "tier='pinned' was asked for")]
    with pytest.raises(BudgetError, match=r"The data is 100 MB; tier='auto', a smaller batch_size or reserve helps"):
        planned(rows, order, Room(GPU, 50 * MB), tier="device")


def test_what_must_be_read_whole_counts_against_the_host():
    rows, order = Described(1000, 100_000, held=100 * MB), Order(1000, 10)
    with pytest.raises(BudgetError, match=r"100 MB of it to read the file at all \(a \.npy file needs none\)"):
        planned(rows, order, Room(CPU, 50 * MB))
    assert planned(rows, order, Room(GPU, 50 * MB)).tier == "pinned"
    with pytest.raises(BudgetError, match=r"takes 104 MB of host memory, which has 90\.00 MB"):
        planned(rows, order, Room(GPU, 50 * MB, host=90 * MB))


def test_tensors_that_are_there_already_cost_nothing():
    x = torch.zeros(1000, 2000)
    assert run(x, budget="1MB").plan.tier == "device"
    assert run(Subset(x, np.arange(900)), budget="1MB").plan.tier == "pinned"  # its rows would be copied


def test_a_mapped_file_is_read_whole_only_where_it_fits(tmp_path: Path):
    x = np.random.default_rng(0).normal(size=(500, 1000)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    tiers = {budget: run(tmp_path / "x.npy", budget=budget) for budget in ("1MB", "10MB")}
    assert {budget: each.plan.tier for budget, each in tiers.items()} == {"1MB": "pinned", "10MB": "device"}
    assert same(*(list(each.epoch(0)) for each in tiers.values()))
    mapped: Any = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert run(mapped, budget="1MB").plan.tier == "pinned"
    assert run(Ragged(mapped, torch.arange(0, 501, 5)), budget="1MB").plan.tier == "pinned"


def test_a_parquet_file_must_fit_the_host(tmp_path: Path):
    pq.write_table(pa.table({"x": np.arange(1_000_000)}), tmp_path / "x.parquet")
    assert run(tmp_path / "x.parquet", budget="30MB").plan.tier == "device"
    with pytest.raises(BudgetError, match="to read the file at all"):
        run(tmp_path / "x.parquet", budget="2MB")


def test_the_bytes_of_ragged_fields_are_known():
    rows = source(small(50))
    words = rows.fields["words"]
    assert words.lengths is not None
    total = int(words.lengths.sum())
    assert rows.nbytes == 50 * (12 + 8) + total * 8 + 50 * 16
    assert rows.batch_bytes(4) >= 4 * (12 + 8) + 4 * int(words.lengths.max()) * 8


def test_the_reserve_is_left_free():
    free = room(CPU, "100MB")
    assert room(CPU, "100MB", "60MB").budget == pytest.approx(free.budget - 60 * MB, rel=0.01)
    assert room(CPU, "100MB", 60 * MB).beside == "60.00 MB reserved"
    with pytest.raises(BudgetError, match=r"100 MB, and 200 MB reserved leaves nothing for data\. Use a larger budget"):
        room(CPU, "100MB", "200MB")
    with pytest.raises(BudgetError, match="not an amount of memory"):
        room(CPU, "much")
