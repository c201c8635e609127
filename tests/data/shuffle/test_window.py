"""The window shuffle: every sample once, none far from its chunk, the full shuffle in one window."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.data.shuffle.permutation import permutation
from brimful.data.shuffle.window import WindowShuffle

SIZES = st.integers(1, 120), st.integers(0, 2**64 - 1), st.integers(1, 12), st.integers(1, 15)
SHUFFLES = st.builds(WindowShuffle, *SIZES)


def test_the_numbers_are_these_on_every_platform_and_in_every_version():
    shuffle = WindowShuffle(12, 0, 2, 3)
    assert shuffle.chunk_order(0).tolist() == [5, 4, 2, 0, 3, 1]
    assert shuffle.of(0).tolist() == [11, 8, 10, 9, 4, 1, 5, 0, 6, 2, 3, 7]


@given(SHUFFLES, st.integers(0, 3))
def test_every_sample_comes_once_and_is_the_same_on_a_device(shuffle: WindowShuffle, epoch: int):
    order = shuffle.of(epoch)
    assert np.array_equal(np.sort(order), np.arange(shuffle.samples))
    assert np.array_equal(shuffle.of_on(torch.device("cpu"), epoch).numpy(), order)


@given(st.integers(1, 100), st.integers(0, 99), st.integers(1, 20), st.integers(0, 5))
def test_a_window_as_large_as_the_data_is_the_full_shuffle(samples: int, seed: int, rows: int, more: int):
    window = -(-samples // rows) + more
    assert np.array_equal(WindowShuffle(samples, seed, rows, window).of(2), permutation(samples, seed, 2))


@given(SHUFFLES, st.integers(0, 3))
def test_chunk_by_chunk_it_is_the_same_order(shuffle: WindowShuffle, epoch: int):
    """Step s needs the chunks within reach of it, and no others."""
    steps: list[list[tuple[int, int]]] = [[] for _ in range(shuffle.steps)]
    chunks = shuffle.chunk_order(epoch)
    assert np.array_equal(np.sort(chunks), np.arange(shuffle.chunks))
    for place, chunk in enumerate(chunks.tolist()):
        where, keys = shuffle.chunk_steps(epoch, chunk, place), shuffle.chunk_keys(epoch, chunk)
        start, stop = shuffle.rows(chunk)
        for step, key, number in zip(where.tolist(), keys.tolist(), range(start, stop), strict=True):
            assert shuffle.whole or abs(step - place) <= shuffle.reach < shuffle.window / 2
            steps[step].append((key, number))
    assert [number for step in steps for _, number in sorted(step)] == shuffle.of(epoch).tolist()


def test_a_row_may_come_anywhere_in_its_window_and_starts_are_mixed():
    shuffle = WindowShuffle(64 * 256, 3, 64, 33)
    order = shuffle.of(1)
    place = np.argsort(shuffle.chunk_order(1))
    away = np.arange(len(order)) / 64 - place[order // 64]
    middle = away[64 * 64 : 64 * 192]
    assert abs(middle.mean() - 0.5) < 1 and 9 < middle.std() < 10.5  # uniform over 33 places: 9.52, in steps
    assert len(set((order[:64] // 64).tolist())) >= 12  # of the 17 chunks there are
    assert len(set((order[-64:] // 64).tolist())) >= 12
    assert np.abs(np.corrcoef(order, np.arange(len(order)))[0, 1]) < 0.2


def test_epochs_and_seeds_differ():
    orders = {tuple(WindowShuffle(100, seed, 5, 4).of(epoch).tolist()) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9
