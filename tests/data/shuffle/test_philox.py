"""Philox: NumPy's words, on any device."""

import os

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the kernel is defined

from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.data.shuffle.permutation import low_bits, permutation, permutation_on
from brimful.data.shuffle.philox import CONSTANTS, Stream, signed

CPU = torch.device("cpu")
KERNEL = torch.device("cuda") if torch.cuda.is_available() else CPU

WORD = st.integers(0, 2**64 - 1)
STREAMS = st.builds(Stream, WORD, WORD, st.integers(0, 5), st.integers(0, 2**40), st.integers(0, 9))


@given(STREAMS, st.integers(0, 70))
def test_torch_has_the_words_of_numpy(stream: Stream, count: int):
    assert np.array_equal(stream.words_on(CPU, count).numpy().view(np.uint64), stream.words(count))


@given(STREAMS, st.integers(0, 40), st.integers(0, 40))
def test_words_can_be_had_from_any_point_on(stream: Stream, start: int, count: int):
    assert np.array_equal(stream.words(count, start), stream.words(start + count)[start:])


@settings(max_examples=4)
@given(STREAMS, st.sampled_from([0, 1, 6, 515]))
def test_the_kernel_has_them_too(stream: Stream, count: int):
    pytest.importorskip("triton")
    from brimful.data.shuffle import philox_triton

    for low, flip in ((0, 0), (low_bits(count), 1 << 63)):
        found = philox_triton.words(stream.key, CONSTANTS, KERNEL, count, low, flip)
        assert torch.equal(found.cpu(), stream._on(CPU, count, low, flip))
        stored = torch.tensor(signed(stream.epoch), device=KERNEL)
        other = (stream.seed, 0, stream.use, stream.first, stream.second)
        assert torch.equal(found, philox_triton.words(other, CONSTANTS, KERNEL, count, low, flip, stored))


@pytest.mark.parametrize(("count", "run"), [(0, 1), (1, 1), (9, 9), (700, 9), (700, 2), (515, 1)])
def test_words_are_sorted_by_their_upper_halves_and_then_by_the_lower(count: int, run: int):
    """Runs of equal upper halves are left in any order by the sort of those."""
    pytest.importorskip("triton")
    from brimful.data.shuffle import sort_triton

    generator = torch.Generator().manual_seed(count + run)
    upper = torch.arange(count) // run - count // (2 * run)
    words = (upper << 32 | torch.randperm(count, generator=generator) * 2**22)[
        torch.randperm(count, generator=generator)
    ]
    assert torch.equal(sort_triton.order(words.to(KERNEL)).cpu(), torch.sort(words).indices)


@given(st.integers(0, 3000), WORD, WORD)
def test_a_permutation_made_on_a_device_is_that_of_the_host(samples: int, seed: int, epoch: int):
    found = permutation_on(KERNEL, samples, seed, epoch)
    assert np.array_equal(found.cpu().numpy(), permutation(samples, seed, epoch))


@pytest.mark.gpu
def test_a_permutation_that_is_replayed_is_that_of_the_host():
    from brimful.data.shuffle.replayed import ReplayedPermutation

    for samples in (1, 7, 5_000, 300_000):
        replayed = ReplayedPermutation(KERNEL, samples, 2**63 + 5)
        found = {epoch: replayed(epoch) for epoch in (0, 3, 2**64 - 1)}
        for epoch, order in found.items():
            assert np.array_equal(order.cpu().numpy(), permutation(samples, 2**63 + 5, epoch))
