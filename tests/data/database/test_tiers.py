"""Batches from PostgreSQL: the same in every tier, for any size, batch, seed, window and number of ranks."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.data.database import chunk_format

from ..datasets import run
from .conftest import Server, same

pytestmark = pytest.mark.usefixtures("one_thread")

TIERS = ("device", "pinned", "window")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_format.rows_per_chunk, "__defaults__", (4_000,))


def equal(one: list[Any], two: list[Any]) -> bool:
    return len(one) == len(two) and all(
        same(first[name], second[name]) for first, second in zip(one, two, strict=True) for name in first
    )


@settings(max_examples=3)
@given(
    count=st.integers(20, 300), size=st.integers(8, 90), seed=st.integers(0, 2**64 - 1), window=st.integers(1, 320),
    ranks=st.integers(1, 3), shards=st.sampled_from([1, 1, 2]), first=st.integers(0, 20),
)  # fmt: skip
def test_the_batches_are_those_of_the_arrays_in_every_tier(
    shared: Server, rows: dict[str, Any], count, size, seed, window, ranks, shards, first
):
    arrays = {name: torch.as_tensor(part[:count]) for name, part in rows.items()}
    dataset = shared.open(shared.put(arrays))
    options: dict[str, Any] = {"batch_size": size, "seed": seed, "window": window}
    options["shards"] = shards if dataset.chunk_rows * 8 <= count and size >= 24 else 1
    for rank in range(ranks):
        part = {**options, "rank": rank, "ranks": ranks}
        expected = run(arrays, tier="device", chunk_rows=dataset.chunk_rows, **part)
        reference = [list(expected.epoch(epoch)) for epoch in range(2)]
        for tier in TIERS:
            batches = run(dataset, tier=tier, **part)
            assert all(equal(list(batches.epoch(epoch)), reference[epoch]) for epoch in range(2))
            batch = first % len(expected)
            batches.restore({**batches.state(), "epoch": 1, "seen": batch * size})
            assert equal(list(batches), reference[1][batch:])
    dataset.close()


def test_a_connection_that_is_dropped_in_mid_epoch_costs_no_row(own: Server, rows: dict[str, Any]):
    dataset = own.open(own.put(rows))
    expected = list(run(rows, window=60, chunk_rows=dataset.chunk_rows, batch_size=16).epoch(0))
    found = []
    for batch in run(dataset, tier="window", window=60, batch_size=16).epoch(0):
        found.append(batch)
        if len(found) % 5 == 1:
            own.terminate_others()
    assert equal(found, expected)
    dataset.close()
