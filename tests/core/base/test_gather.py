"""Batches in any order come together in the order of the items."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.base.errors import InputError
from brimful.core.base.gather import Gatherer, assemble
from brimful.core.base.ragged import Ragged

from .samples import lists_of, ragged, samples_of


@given(st.data())
def test_batches_in_any_order_come_together_in_the_items_order(data: st.DataObject):
    count = data.draw(st.integers(1, 30))
    order = np.array(data.draw(st.permutations(range(count))))
    ends = sorted({*data.draw(st.lists(st.integers(1, count), max_size=5)), count})
    pieces = np.split(order, ends[:-1])
    lost = data.draw(st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces)))
    kept = [piece for piece, gone in zip(pieces, lost, strict=True) if not gone]
    gone = [piece for piece, gone in zip(pieces, lost, strict=True) if gone]
    batches = [(torch.from_numpy(piece * 1.5), torch.from_numpy(piece)) for piece in kept]
    whole = assemble(batches, kept, gone)
    if not kept:
        assert whole is None
        return
    there = np.isin(np.arange(count), np.concatenate(kept))
    assert whole is not None
    assert np.array_equal(whole[0].numpy(), np.where(there, np.arange(count) * 1.5, np.nan), equal_nan=True)
    assert np.array_equal(whole[1].numpy(), np.where(there, np.arange(count), 0))


@given(samples_of(min_size=1), st.data())
def test_samples_in_any_order_come_together_in_the_items_order(samples: list[list[int]], data: st.DataObject):
    order = np.array(data.draw(st.permutations(range(len(samples)))))
    pieces = np.split(order, sorted(data.draw(st.sets(st.integers(1, len(samples)), max_size=4))))
    pieces = [piece for piece in pieces if len(piece)]
    lost = data.draw(st.sets(st.integers(0, len(pieces) - 1), max_size=len(pieces) - 1))
    gatherer = Gatherer((torch.zeros(1), ragged([[0]])), len(samples))
    for number, piece in enumerate(pieces):
        if number in lost:
            gatherer.blank(piece)
        else:
            batch = ragged([samples[item] for item in piece.tolist()])
            gatherer.put(piece, (torch.from_numpy(piece).float(), batch))
    gone = {int(item) for number in lost for item in pieces[number]}
    numbers, whole = gatherer.whole()
    assert lists_of(whole) == [[] if item in gone else sample for item, sample in enumerate(samples)]
    assert [item for item in range(len(samples)) if numbers[item].isnan()] == sorted(gone)
    assert gatherer.whole()[1] is whole  # once more, without a copy


def test_batches_are_let_go_of_one_by_one():
    parts: list[Any] = [Ragged.of([[1], [2, 3]]), Ragged.of([[], [4]])]
    whole: Any = assemble(parts, [np.array([2, 3]), np.array([0, 1])])
    assert lists_of(whole) == [[], [4], [1], [2, 3]]
    assert parts == []


def test_an_index_that_cannot_be_written_is_taken():
    index = np.array([1, 0])
    index.flags.writeable = False
    whole: Any = assemble([torch.tensor([1.0, 2.0])], [index])
    assert whole.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    "other",
    [torch.zeros(2, 3).double(), torch.zeros(2, 4), (torch.zeros(2, 3),), Ragged(torch.zeros(3), torch.arange(3))],
)
def test_batches_of_another_form_are_refused(other: Any):
    with pytest.raises(InputError, match="must be the same in all"):
        assemble([torch.zeros(2, 3), other], [np.array([0, 1]), np.array([2, 3])])
