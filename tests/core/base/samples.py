"""Samples of unequal length, as lists and as a `Ragged`."""

import torch
from hypothesis import strategies as st

from brimful.core.base.ragged import Ragged


def samples_of(min_size: int = 0, max_size: int = 12) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(st.integers(0, 255), max_size=6), min_size=min_size, max_size=max_size)


def ragged(samples: list[list[int]], dtype: torch.dtype = torch.uint8) -> Ragged:
    """Of any number of samples, none among them."""
    lengths = torch.tensor([0, *map(len, samples)])
    return Ragged(torch.tensor([value for sample in samples for value in sample], dtype=dtype), lengths.cumsum(0))


def lists_of(samples: Ragged) -> list[list[int]]:
    return [sample.tolist() for sample in samples.samples()]
