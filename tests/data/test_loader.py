"""`loader`: the same batches in both tiers, for any size, and from any point on."""

import gc
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import brimful
from brimful import BudgetError, ConfigError, InputError
from brimful.data import Decoded, Padded, Ragged, Subset
from brimful.data.shuffle.order import Order
from brimful.data.shuffle.permutation import transform_seed

from .datasets import none_left, parts, run, same, small, threads, unpadded

pytestmark = pytest.mark.usefixtures("one_thread")


@settings(max_examples=60)
@given(
    samples=st.integers(1, 40),
    size=st.integers(1, 50),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 3),
    ranks=st.integers(1, 5),
    shuffle=st.booleans(),
    bucket=st.integers(0, 3),
    balance=st.booleans(),
    ragged=st.sampled_from(["pad", "packed"]),
)
def test_the_same_batches_in_both_tiers_and_from_all_ranks_together(
    samples, size, seed, epoch, ranks, shuffle, bucket, balance, ragged
):
    data = small(samples)
    options = {"batch_size": size, "seed": seed, "shuffle": shuffle, "bucket": bucket, "ragged": ragged}
    options |= {"balance": balance and bucket > 0}
    whole = run(data, tier="device", **options)
    expected = [whole.index(epoch, batch).tolist() for batch in range(len(whole))]
    together = [[] for _ in range(len(whole))]
    for rank in range(ranks):
        tiers = [run(data, tier=tier, rank=rank, ranks=ranks, **options) for tier in ("device", "pinned")]
        one, two = (list(each.epoch(epoch)) for each in tiers)
        assert same(one, two)
        assert len(one) == len(whole)
        for seen, batch in zip(together, one, strict=True):
            seen += batch["y"].tolist()
            assert torch.equal(batch["x"], data["x"][batch["y"]])
            words = batch["words"]
            lengths = words.lengths.tolist()
            assert lengths == data["words"].lengths[batch["y"]].tolist()
            if isinstance(words, Padded):
                assert words.values.shape[1] == max(lengths, default=0)
                assert not words.values[~words.mask].any()
    assert together == expected


@settings(max_examples=30)
@given(
    samples=st.integers(1, 40),
    size=st.integers(1, 12),
    stop=st.integers(0, 60),
    ranks=st.integers(1, 4),
    tiers=st.tuples(*[st.sampled_from(["device", "pinned"])] * 2),
    bucket=st.integers(0, 2),
    balance=st.booleans(),
)
def test_a_state_resumes_at_any_batch_in_another_tier_and_number_of_ranks(
    samples, size, stop, ranks, tiers, bucket, balance
):
    data = small(samples)
    options = {"batch_size": size, "seed": 5, "bucket": bucket, "balance": balance and bucket > 0}
    first = run(data, tier=tiers[0], ranks=1, **options)
    stop = stop % (2 * len(first))  # in the first epoch or the second
    reference = [set(batch["y"].tolist()) for epoch in range(3) for batch in first.epoch(epoch)]
    first = run(data, tier=tiers[0], ranks=1, **options)
    given, batches = 0, iter(first)
    while given < stop:
        batch = next(batches, None)
        if batch is None:
            batches = iter(first)
        else:
            given += 1
    state = json.loads(json.dumps(first.state()))
    rest: list[set[int]] = [set() for _ in range(len(first) - stop % len(first))]
    for rank in range(ranks):
        other = run(data, tier=tiers[1], rank=rank, ranks=ranks, **options)
        other.restore(state)
        assert other.position == divmod(stop, len(first))
        for seen, batch in zip(rest, other, strict=True):
            seen |= set(batch["y"].tolist())
    assert rest == reference[stop : stop + len(rest)]


def test_a_position_is_the_next_batch():
    batches = run(torch.arange(10))
    assert batches.position == (0, 0)
    seen = [batches.position for _ in batches.epoch(2)]
    assert seen == [(2, 1), (2, 2), (3, 0)]
    assert batches.state() | {"fingerprint": ""} == {
        "fingerprint": "",
        "samples": 10,
        "seed": 0,
        "batch_size": 4,
        "shuffle": True,
        "bucket": 0,
        "balance": False,
        "window": None,
        "chunk_rows": None,
        "shards": 1,
        "epoch": 3,
        "seen": 0,
    }


def test_iterating_goes_on_with_the_next_epoch():
    batches = run(torch.arange(10))
    epochs = [torch.cat(list(batches.epoch(number))) for number in range(3)]
    again = run(torch.arange(10))
    assert all(torch.equal(torch.cat(list(again)), epoch) for epoch in epochs)
    for _ in again:
        break
    assert torch.equal(torch.cat(list(again)), torch.cat(list(batches.epoch(4))))  # the third was left in its midst


def test_an_epoch_asked_for_is_whole_and_a_restored_one_is_its_rest_once():
    batches = run(torch.arange(10))
    whole = list(batches.epoch(1))
    assert same(list(batches.epoch(1)), whole)
    middle = batches.epoch(1)
    next(middle)
    state = batches.state()
    batches.restore(state)
    assert same(list(batches.epoch(1)), whole[1:])
    assert same(list(batches.epoch(1)), whole)
    batches.restore(state)
    assert len(list(batches.epoch(0))) == 3  # another epoch has nothing to do with it


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        ({"seed": 1}, ConfigError, "seed=0, this loader seed=1"),
        ({"batch_size": 5}, ConfigError, "batch_size=4, this loader batch_size=5"),
        ({"shuffle": False}, ConfigError, "shuffle"),
        ({"bucket": 2}, ConfigError, "bucket"),
        ({"bucket": 2, "balance": True}, ConfigError, "bucket"),
        ({"fingerprint": "mine"}, InputError, "another dataset.*'mine'"),
    ],
)
def test_a_state_of_something_else_is_refused(change: dict[str, Any], error: type[Exception], told: str):
    state = run(small(10)).state()
    with pytest.raises(error, match=told):
        run(small(10), **change).restore(state)


def test_a_state_of_other_data_or_no_state_at_all_is_refused():
    state = run(small(10)).state()
    with pytest.raises(InputError, match="another dataset"):
        run(small(10, seed=1)).restore(state)
    for wrong in ({}, {"epoch": 1}, None, {**state, "more": 1}):
        with pytest.raises(InputError, match="not a loader's state"):
            run(small(10)).restore(wrong)  # pyright: ignore[reportArgumentType]
    for seen in (3, -4, 12, "4"):
        with pytest.raises((InputError, ConfigError), match="seen"):
            run(small(10)).restore({**state, "seen": seen})


def test_the_state_is_known_by_content_not_by_form(tmp_path: Path):
    x = np.arange(12.0, dtype=np.float32).reshape(6, 2)
    np.save(tmp_path / "x.npy", x)
    states = [run(source).state() for source in (torch.from_numpy(x), x, tmp_path / "x.npy")]
    assert states[0] == states[1] == states[2]


def noisy(batch: dict[str, Any], generator: torch.Generator) -> dict[str, Any]:
    return batch | {"x": batch["x"] + torch.rand(batch["x"].shape, generator=generator)}


def test_transforms_draw_the_same_numbers_after_a_resume_and_in_both_tiers():
    data = small(20)
    whole = list(run(data, tier="device", transform=noisy).epoch(1))
    assert same(whole, list(run(data, tier="pinned", transform=[noisy]).epoch(1)))
    batches = run(data, transform=noisy)
    started = batches.epoch(1)
    next(started)
    next(started)
    other = run(data, transform=noisy, tier="pinned")
    other.restore(batches.state())
    assert same(list(other), whole[2:])
    torch.rand(3)
    before = torch.get_rng_state()
    list(batches.epoch(0))
    assert torch.equal(before, torch.get_rng_state())  # the global generator is left alone


def test_batches_and_ranks_draw_numbers_of_their_own():
    ones = torch.ones(8)
    draw = {"transform": lambda batch, generator: torch.rand(len(batch), generator=generator)}
    drawn = [run(ones, rank=rank, ranks=2, **draw) for rank in range(2)]
    rows = [batch.tolist() for each in drawn for epoch in range(2) for batch in each.epoch(epoch)]
    assert len({tuple(row) for row in rows}) == len(rows) == 8


@pytest.mark.parametrize("tier", ["device", "pinned"])
def test_the_form_of_a_batch_is_that_of_the_source(tier: str):
    x, y = np.arange(8.0).reshape(4, 2), [3, 1, 2, 0]
    single = next(run(x, tier=tier, shuffle=False).epoch(0))
    assert single.tolist() == x.tolist() and single.dtype == torch.float64
    pair = next(run((x, y), tier=tier, shuffle=False).epoch(0))
    assert isinstance(pair, tuple) and pair[1].tolist() == y
    table = next(run({"x": x, 7: y}, tier=tier, shuffle=False).epoch(0))
    assert list(table) == ["x", 7] and table[7].tolist() == y


@pytest.mark.parametrize("tier", ["device", "pinned"])
@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.float16, torch.bfloat16,
        torch.complex64,
    ],
)  # fmt: skip
def test_every_dtype_comes_through(tier: str, dtype: torch.dtype):
    x = torch.tensor([1, 0, 1, 2, 3]).to(dtype)
    data = {"x": x, "words": Ragged(x, torch.tensor([0, 2, 2, 3, 4, 5]))}
    batch = next(run(data, tier=tier, shuffle=False, batch_size=5).epoch(0))
    assert batch["x"].dtype == batch["words"].values.dtype == dtype
    assert torch.equal(batch["x"].to(torch.complex64), x.to(torch.complex64))
    filled = torch.tensor([[1, 0], [0, 0], [1, 0], [2, 0], [3, 0]]).to(dtype)
    assert torch.equal(batch["words"].values.to(torch.complex64), filled.to(torch.complex64))


def test_what_to_fill_up_with():
    words = Ragged.of([[1, 2, 3], [], [4]])
    batch = next(run(words, shuffle=False, pad=-1).epoch(0))
    assert batch.values.tolist() == [[1, 2, 3], [-1, -1, -1], [4, -1, -1]]
    assert batch.mask.tolist() == [[True] * 3, [False] * 3, [True, False, False]]
    with pytest.raises(ConfigError, match="pad"):
        run(words.__class__(words.values.to(torch.uint8), words.offsets), pad=-1)


def test_samples_that_are_all_empty():
    words = Ragged(torch.empty(0, 2), torch.zeros(4, dtype=torch.int64))
    for tier in ("device", "pinned"):
        batch = next(run(words, tier=tier).epoch(0))
        assert batch.values.shape == (3, 0, 2) and batch.lengths.tolist() == [0, 0, 0]


def test_bucketing_saves_padding_and_says_how_much():
    chance = np.random.default_rng(0)
    words = Ragged.of([np.zeros(length) for length in chance.integers(1, 100, 512)])
    batches = run(words, batch_size=16, bucket=16)
    saved = batches.padding()
    places = sum(batch.values.numel() for batch in batches.epoch(0))
    assert places == saved.padded
    assert saved.share < 0.1 < 0.4 < saved.unsorted_share
    assert places < sum(batch.values.numel() for batch in run(words, batch_size=16).epoch(0)) == saved.unsorted


def test_one_sample_and_a_batch_larger_than_the_data():
    for tier in ("device", "pinned"):
        assert [batch.tolist() for batch in run(torch.tensor([5]), tier=tier).epoch(0)] == [[5]]
        assert len(list(run(torch.arange(3), batch_size=10**9, tier=tier).epoch(0))) == 1
    with pytest.raises(ConfigError, match="drop_last leaves no batch: 3 samples do not fill one of 4"):
        run(torch.arange(3), drop_last=True)


def test_ranks_without_a_sample_get_empty_batches():
    for tier in ("device", "pinned"):
        found = [list(run(small(5), tier=tier, rank=rank, ranks=4).epoch(0)) for rank in range(4)]
        assert [[len(batch["y"]) for batch in each] for each in found] == [[1, 0], [1, 0], [1, 0], [1, 1]]
        assert found[0][1]["x"].shape == (0, 3) and found[0][1]["words"].values.shape == (0, 0, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0}, {"batch_size": 2.5}, {"batch_size": True}, {"seed": -1}, {"seed": 2**64}, {"ranks": 0},
        {"rank": 2, "ranks": 2}, {"bucket": -1}, {"num_workers": -1}, {"tier": "disk"}, {"ragged": "nested"},
        {"reserve": "much"}, {"reserve": -1},
    ],
)  # fmt: skip
def test_options_out_of_range_are_refused(wrong: dict[str, Any]):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        run(torch.arange(10), **wrong)


def test_random_transforms_are_seeded_by_where_a_rank_begins_in_a_balanced_batch():
    def seeds(rank: int, ranks: int) -> list[int]:
        options: dict[str, Any] = {"batch_size": 4, "bucket": 3, "balance": True, "rank": rank, "ranks": ranks}
        note: list[int] = []

        def transform(batch: Any, generator: torch.Generator) -> Any:
            note.append(generator.initial_seed())
            return batch

        for _ in run(small(30), transform=transform, **options).epoch(1):
            pass
        return note

    order = Order(30, 4, 0, bucket=3, lengths=(small(30)["words"].lengths.numpy(),), balance=True)
    places = order.positions(1, 1, 2)
    assert seeds(1, 2) == [transform_seed(0, 1, batch, int(places[batch])) for batch in range(order.batches)]
    assert seeds(0, 2) == seeds(0, 1)


@pytest.mark.parametrize("tier", ["device", "pinned"])
def test_one_batch_and_the_position_stays(tier: str):
    batches = run(small(30), tier=tier, batch_size=4, bucket=2, balance=True)
    next(running := batches.epoch(1))
    whole = list(run(small(30), tier=tier, batch_size=4, bucket=2, balance=True).epoch(0))
    assert same([batches.batch(0, number) for number in range(len(whole))], whole)
    assert batches.position == (1, 1)
    assert same(list(running), list(run(small(30), batch_size=4, bucket=2, balance=True).epoch(1))[1:])


def test_the_heaviest_batches():
    assert run(torch.arange(10)).heaviest() == [0]
    words = [list(range(length)) for length in np.random.default_rng(0).geometric(0.1, 200)]
    for options in ({}, {"bucket": 10}, {"bucket": 10, "balance": True}):
        batches = run(Ragged.of(words), batch_size=8, **options)
        whole = list(batches.epoch(0))
        samples, positions = [len(each.lengths) for each in whole], [each.values.numel() for each in whole]
        assert set(batches.heaviest()) == {samples.index(max(samples)), positions.index(max(positions))}


def test_balancing_needs_bucketing():
    with pytest.raises(ConfigError, match="bucket"):
        run(small(10), balance=True)


def test_bucketing_needs_lengths_and_epochs_are_counted_from_0():
    with pytest.raises(ConfigError, match="no field is ragged"):
        run(torch.arange(10), bucket=2)
    with pytest.raises(ConfigError, match="epoch is -1"):
        run(torch.arange(10)).epoch(-1)
    with pytest.raises(ConfigError, match="batch is 3"):
        run(torch.arange(10)).index(0, 3)


def test_an_iterator_left_in_its_midst_leaves_no_thread():
    batches = run(Decoded(range(1000), torch.tensor), tier="pinned", num_workers=2)
    for _ in batches.epoch(0):
        assert "brimful-ahead" in threads()
        break
    held = batches.epoch(1)
    next(held)
    del held
    gc.collect()
    assert none_left()


def test_a_whole_epoch_leaves_no_thread():
    list(run(torch.arange(100), tier="pinned").epoch(0))
    assert none_left()


def test_no_more_batches_are_read_ahead_than_said():
    read = []

    class Counting:
        def __len__(self) -> int:
            return 100

        def take(self, index: np.ndarray) -> torch.Tensor:
            read.append(len(index))
            return torch.from_numpy(index)

    batches = run(Counting(), tier="pinned").epoch(0)
    read.clear()
    next(batches)
    time.sleep(0.1)
    assert len(read) <= 3


def test_an_error_on_the_thread_reaches_the_caller():
    class Broken:
        def __len__(self) -> int:
            return 12

        def take(self, index: np.ndarray) -> torch.Tensor:
            if 9 in index:
                raise OSError("the disk is gone")
            return torch.from_numpy(index)

    batches = run(Broken(), tier="pinned", shuffle=False).epoch(0)
    assert [len(next(batches)), len(next(batches))] == [4, 4]
    with pytest.raises(OSError, match="the disk is gone"):
        next(batches)
    assert none_left()


def test_batches_that_are_kept_do_not_change():
    for tier in ("device", "pinned"):
        kept = list(run(torch.arange(40), tier=tier).epoch(0))
        assert sorted(torch.cat(kept).tolist()) == list(range(40))
        kept[0].zero_()  # a batch is the caller's own
        assert sorted(torch.cat(list(run(torch.arange(40), tier=tier).epoch(0))).tolist()) == list(range(40))


def test_a_subset_is_loaded_and_shuffled_by_itself():
    data = small(30)
    chosen = np.array([3, 4, 8, 20, 29])
    for tier in ("device", "pinned"):
        seen = list(run(Subset(data, chosen), batch_size=2, tier=tier).epoch(0))
        assert sorted(number for batch in seen for number in batch["y"].tolist()) == chosen.tolist()
        for batch in seen:
            for number, words in zip(batch["y"].tolist(), unpadded(batch["words"]), strict=True):
                start, stop = data["words"].offsets[number : number + 2].tolist()
                assert words == data["words"].values[start:stop].tolist()


def test_nothing_is_loaded_before_the_first_batch(tmp_path: Path):
    path = tmp_path / "x.npz"
    np.savez(path, x=np.arange(1000.0))
    batches = run(path)
    assert batches.plan.items == 1000
    path.unlink()
    with pytest.raises(InputError, match=r"x\.npz cannot be read"):
        next(batches.epoch(0))


def test_a_budget_that_holds_no_batch_is_refused_before_anything_is_loaded(tmp_path: Path):
    path = tmp_path / "x.npy"
    np.lib.format.open_memmap(path, "w+", np.uint8, (40, 1_000_000)).flush()
    with pytest.raises(BudgetError, match=r"one batch needs .*MB.* smaller batch_size"):
        run(path, batch_size=8, budget="10MB")


def test_it_is_part_of_the_surface():
    assert brimful.data.__all__ == sorted(brimful.data.__all__)
    assert all(hasattr(brimful.data, name) for name in brimful.data.__all__)
    batches = brimful.data.loader(torch.arange(3), batch_size=2, device="cpu")
    assert isinstance(batches, brimful.data.Loader) and len(batches) == 2 and batches.device == torch.device("cpu")
    assert parts(next(iter(batches)))[0].shape == (2,)
