"""Operations on samples of unequal length do what they do to a list of lists."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.base import pytree
from brimful.core.base import ragged as module
from brimful.core.base.errors import InputError
from brimful.core.base.ragged import Ragged

from ...engine.map.mapping import same
from .samples import lists_of, ragged, samples_of


@pytest.fixture(params=[1, 3, 1 << 18], ids=lambda block: f"blocks of {block}", autouse=True, scope="module")
def small_blocks(request: pytest.FixtureRequest):
    """Copies in many blocks, and with runs that count as long, on small data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", max(4, request.param))
        patch.setattr(module, "_LONG", min(4, request.param))
        yield


@given(samples_of(), st.data())
def test_slices_are_those_of_the_list(samples: list[list[int]], data: st.DataObject):
    start = data.draw(st.integers(0, len(samples)))
    stop = data.draw(st.integers(start, len(samples)))
    part = pytree.slice_rows(ragged(samples), start, stop)
    assert lists_of(part) == samples[start:stop]
    part.check_offsets("a slice")


@given(samples_of(min_size=1), st.data())
def test_a_pick_takes_any_samples_in_any_order(samples: list[list[int]], data: st.DataObject):
    index = data.draw(st.lists(st.integers(0, len(samples) - 1)))
    taken = pytree.take_rows(ragged(samples), torch.tensor(index, dtype=torch.int64))
    assert lists_of(taken) == [samples[item] for item in index]
    taken.check_offsets("what was taken")


@given(samples_of(min_size=1), samples_of(min_size=12), st.data())
def test_samples_are_put_in_the_place_of_others(samples: list[list[int]], others: list[list[int]], data: st.DataObject):
    order = data.draw(st.permutations(range(len(samples))))
    index = order[: data.draw(st.integers(1, len(samples)))]
    if data.draw(st.booleans()):
        index = sorted(index)[:1]
    whole, rows = ragged(samples), ragged(others[: len(index)])
    put = pytree.put_rows(whole, torch.tensor(index).numpy(), rows)
    expected = list(samples)
    for item, sample in zip(index, others, strict=False):
        expected[item] = sample
    assert lists_of(put) == expected
    assert lists_of(whole) == samples  # the others are as they were


@given(st.lists(samples_of(), min_size=1, max_size=4))
def test_parts_are_joined_one_after_the_other(parts: list[list[list[int]]]):
    assert lists_of(pytree.join([ragged(part) for part in parts])) == [sample for part in parts for sample in part]


@pytest.mark.parametrize(
    "dtype", [torch.uint16, torch.uint64, torch.float8_e5m2, torch.bfloat16, torch.bool, torch.complex64], ids=str
)
def test_every_dtype_is_copied(dtype: torch.dtype):
    samples = Ragged(torch.arange(6).to(torch.float32).to(dtype), torch.tensor([0, 3, 3, 6]))
    turned = pytree.take_rows(samples, torch.tensor([2, 0, 1]))
    assert turned.values.dtype == dtype
    assert same(turned.values, torch.cat([samples.values[3:], samples.values[:3]]))


def test_blank_samples_are_empty():
    blank = pytree.blank_rows(Ragged(torch.zeros(4, 2, 3), torch.tensor([0, 4])), 3)
    assert blank.offsets.tolist() == [0, 0, 0, 0]
    assert blank.values.shape == (0, 2, 3)
    assert pytree.spec(blank) == [("", "torch.float32", (None, 2, 3))]


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, float("nan"), float("inf")]), max_size=4), min_size=1))
def test_a_sample_is_finite_when_all_its_values_are(samples: list[list[float]]):
    values = torch.tensor([value for sample in samples for value in sample])
    offsets = torch.tensor([0, *map(len, samples)]).cumsum(0)
    expected = [all(value in (0.0, 1.0) for value in sample) for sample in samples]
    for shaped in (values, values[:, None], torch.stack([torch.zeros_like(values), values], dim=1)):
        flags = pytree.finite_rows({"x": Ragged(shaped, offsets), "n": offsets[1:]})
        assert flags is not None
        assert flags.tolist() == expected


def test_offsets_beyond_the_values_do_no_harm_before_they_are_checked():
    wild = Ragged(torch.ones(3), torch.tensor([-5, 2, 900]))
    assert wild.all_rows(torch.tensor([True, True, False])).tolist() == [True, False]


@pytest.mark.parametrize(
    ("values", "offsets"),
    [
        *((torch.tensor(1.0), torch.arange(2)), (torch.zeros(3), torch.zeros(2)), (torch.zeros(3), torch.tensor(3))),
        *((torch.zeros(3), torch.arange(0)), (torch.zeros(3), [0, 3]), ([1, 2], torch.arange(3))),
    ],
)
def test_what_cannot_be_samples_is_named(values: Any, offsets: Any):
    with pytest.raises(InputError, match=r"the result 'text': a Ragged needs"):
        pytree.checked({"text": Ragged(values, offsets)}, "the result")


@pytest.mark.parametrize("offsets", [[1, 3], [0, 2], [0, 3, 1, 3], [0, 4]])
def test_offsets_that_do_not_fit_the_values_are_named(offsets: list[int]):
    samples = pytree.checked({"text": Ragged(torch.zeros(3), torch.tensor(offsets, dtype=torch.int32))}, "the result")
    assert samples["text"].offsets.dtype == torch.int64
    with pytest.raises(InputError, match=r"the result 'text': offsets must rise from 0 to the number of values, 3"):
        pytree.check_offsets(samples, "the result")


def test_what_takes_tensors_only_refuses_samples_of_unequal_length():
    with pytest.raises(InputError, match="is a Ragged; it must be a tensor"):
        pytree.leaves({"a": torch.zeros(2), "b": ragged([[1]])})
