"""Permutations: the same numbers everywhere, and as good as chance."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from brimful.data.shuffle.permutation import bucket_permutation, permutation, split_permutation, transform_seed


def test_the_numbers_are_these_on_every_platform_and_in_every_version():
    assert permutation(10, 0, 0).tolist() == [0, 2, 9, 1, 8, 5, 4, 3, 6, 7]
    assert permutation(10, 2**64 - 1, 3).tolist() == [3, 2, 8, 0, 1, 6, 9, 5, 4, 7]
    assert bucket_permutation(6, 1, 2, 3).tolist() == [4, 3, 1, 2, 5, 0]
    assert split_permutation(6, 1).tolist() == [5, 3, 0, 1, 4, 2]
    assert transform_seed(1, 2, 3, 4) == 2104285212442730848


@given(st.integers(0, 2000), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_every_sample_comes_once(samples: int, seed: int, epoch: int):
    assert np.array_equal(np.sort(permutation(samples, seed, epoch)), np.arange(samples))


def test_seeds_epochs_and_uses_differ():
    orders = [permutation(100, 0, 0), permutation(100, 0, 1), permutation(100, 1, 0)]
    orders += [split_permutation(100, 0), bucket_permutation(100, 0, 0, 0), bucket_permutation(100, 0, 0, 1)]
    assert len({tuple(order.tolist()) for order in orders}) == len(orders)
    assert len({transform_seed(0, 0, batch, place) for batch in range(10) for place in range(10)}) == 100


def test_all_orders_of_four_are_about_equally_frequent():
    counts = np.zeros(4**4, int)
    for epoch in range(12_000):
        counts[int((permutation(4, 7, epoch) * 4 ** np.arange(4)).sum())] += 1
    seen = counts[counts > 0]
    assert len(seen) == 24
    assert ((seen - 500) ** 2 / 500).sum() < 50  # chi-squared with 23 degrees of freedom: 50 is passed once in 1,000
