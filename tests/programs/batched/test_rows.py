"""Rows of flat tensors: compiled loops beside their plain twins."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.programs.batched import rows

SIZES = st.lists(st.integers(0, 5), min_size=1, max_size=8)


@given(SIZES, st.data())
def test_twins_agree(sizes, data):
    offsets = rows.offsets_of(torch.tensor(sizes))
    flat = torch.arange(100, 100 + sum(sizes))
    index = torch.tensor(data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=9)), dtype=torch.int64)
    assert torch.equal(rows.owners(offsets), rows.owners_plain(offsets))
    for ours, plain in zip(rows.gathered(offsets, index), rows.gathered_plain(offsets, index), strict=True):
        assert torch.equal(ours, plain)
    for ours, plain in zip(rows.taken(flat, offsets, index), rows.taken_plain(flat, offsets, index), strict=True):
        assert torch.equal(ours, plain)
    parts = [flat[offsets[row] : offsets[row + 1]] for row in index.tolist()]
    assert torch.equal(rows.taken(flat, offsets, index)[0], torch.cat([flat[:0], *parts]))


@given(st.lists(st.tuples(*[st.lists(st.integers(0, 1), max_size=3)] * 2), min_size=1, max_size=8))
def test_rows_are_the_same_by_either_twin(pairs):
    left, right = zip(*pairs, strict=True)
    given_rows = []
    for values in (left, right):
        given_rows.append(torch.tensor([number for row in values for number in row], dtype=torch.int64))
        given_rows.append(rows.offsets_of(torch.tensor(list(map(len, values)))))
    expected = [a == b for a, b in pairs]
    assert rows.same_rows(*given_rows).tolist() == expected
    assert rows.same_rows_plain(*given_rows).tolist() == expected
