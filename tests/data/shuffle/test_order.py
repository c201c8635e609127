"""The order of an epoch: cut by ranks, sorted by length, and what that saves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.data.shuffle.order import Order, Padding, balanced


@given(
    st.integers(1, 60), st.integers(1, 20), st.integers(0, 5), st.integers(1, 7), st.booleans(), st.booleans(),
    st.integers(0, 4), st.booleans(),
)  # fmt: skip
def test_the_parts_of_all_ranks_are_the_batch(samples, size, epoch, ranks, drop, shuffle, bucket, balance):
    lengths = np.random.default_rng(samples).integers(0, 9, samples)
    order = Order(samples, size, 3, shuffle, drop, bucket, (lengths,), balance=balance)
    whole, bounds = order.part(epoch)
    assert len(bounds) == order.batches + 1
    assert np.array_equal(whole, order.of(epoch)[: len(whole)])
    parts = [order.part(epoch, rank, ranks) for rank in range(ranks)]
    for batch in range(order.batches):
        pieces = [index[cuts[batch] : cuts[batch + 1]] for index, cuts in parts]
        assert np.array_equal(np.concatenate(pieces), whole[bounds[batch] : bounds[batch + 1]])
        assert max(map(len, pieces)) - min(map(len, pieces)) <= 1
        assert [order.positions(epoch, rank, ranks)[batch] for rank in range(ranks)] == [
            sum(map(len, pieces[:rank])) for rank in range(ranks)
        ]


@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 8), st.booleans(), st.integers(0, 3), st.booleans())
def test_an_order_can_be_taken_up_at_any_batch(samples, size, first, drop, bucket, balance):
    lengths = np.random.default_rng(samples).integers(0, 9, samples)
    order = Order(samples, size, drop_last=drop, bucket=bucket, lengths=(lengths,), balance=balance)
    first = min(first, order.batches)
    whole, bounds = order.part(2)
    rest, cuts = order.part(2, first=first)
    assert np.array_equal(rest, whole[bounds[first] :])
    assert np.array_equal(cuts, bounds[first:] - bounds[first])


@pytest.mark.parametrize(("drop", "batches"), [(False, 4), (True, 3)])
def test_a_last_shorter_batch_is_kept_unless_dropped(drop: bool, batches: int):
    order = Order(10, 3, drop_last=drop)
    assert order.batches == batches
    assert len(order.part(0)[0]) == (9 if drop else 10)


@given(st.integers(1, 200), st.integers(1, 16), st.integers(1, 12), st.booleans())
def test_bucketing_keeps_windows_and_never_pads_more(samples: int, size: int, bucket: int, shuffle: bool):
    lengths = np.random.default_rng(0).integers(0, 100, samples)
    plain, sorted_ = Order(samples, size, 1, shuffle), Order(samples, size, 1, shuffle, False, bucket, (lengths,))
    width, before, after = size * bucket, plain.of(4), sorted_.of(4)
    for start in range(0, samples, width):
        assert set(before[start : start + width].tolist()) == set(after[start : start + width].tolist())
    padding = sorted_.padding(4)
    assert padding.values == lengths.sum()
    assert padding.values <= padding.padded <= padding.unsorted


@given(st.lists(st.integers(0, 50), min_size=1, max_size=80), st.integers(1, 20))
def test_balanced_batches_have_about_as_many_values(lengths: list[int], batches: int):
    batches = min(batches, len(lengths))
    sorted_ = np.sort(lengths)
    bounds = balanced(sorted_, batches)
    assert bounds[0] == 0
    assert bounds[-1] == len(lengths)
    assert np.diff(bounds).min() >= 1
    values = np.add.reduceat(sorted_, bounds[:-1])
    share, sizes = sorted_.sum() / batches, np.diff(bounds)
    longest = sorted_[bounds[1:] - 1]
    assert np.all((values <= share + longest) | (sizes == 1))


def test_balanced_batches_keep_windows_and_their_number():
    lengths = np.random.default_rng(0).geometric(1 / 30, 1005)
    order = Order(1005, 10, 1, bucket=20, lengths=(lengths,), balance=True)
    whole, bounds = order.part(3)
    assert len(bounds) == 102
    plain = Order(1005, 10, 1).of(3)
    for start in range(0, 1005, 200):
        assert set(plain[start : start + 200].tolist()) == set(whole[start : start + 200].tolist())
    values = np.add.reduceat(lengths[whole], bounds[:-1])[:100].reshape(5, 20)
    assert np.all(np.abs(values / values.mean(1, keepdims=True) - 1) < 0.5)
    assert order.padding(3).padded < 1.2 * order.padding(3).values < order.padding(3).unsorted


@pytest.mark.parametrize("balance", [False, True])
def test_a_last_shorter_batch_is_not_chosen_by_length(balance: bool):
    lengths = np.arange(103)
    order = Order(103, 10, 0, bucket=10, lengths=(lengths,), balance=balance)
    assert np.array_equal(order.of(0)[100:], Order(103, 10, 0).of(0)[100:])


def test_batches_do_not_go_from_short_to_long():
    lengths = np.arange(1000)
    order = Order(1000, 10, 0, bucket=100, lengths=(lengths,))
    means = lengths[order.of(0)].reshape(100, 10).mean(1)
    assert abs(np.corrcoef(means, np.arange(100))[0, 1]) < 0.3
    assert order.padding(0).share < 0.02 < 0.4 < order.padding(0).unsorted_share


def test_the_report_of_padding():
    assert str(Padding(90, 100, 180)) == "10.0% of the batches is padding; 50.0% without length bucketing"
    assert Padding(0, 0, 0).share == Padding(0, 0, 0).unsorted_share == 0
