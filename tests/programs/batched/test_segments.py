"""Sorted sets per row, and the canonical order of anything."""

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.programs.batched import segments
from brimful.programs.batched.columns import Lists
from brimful.programs.batched.convert import build
from brimful.programs.batched.rows import offsets_of
from tests.programs.batched.helpers import (
    DEVICE,
    GRIDS,
    NEAR_INDICES,
    NEAR_OBJECTS,
    random_grid,
    same,
    well_formed,
)

SMALL = st.integers(-2, 2)
ELEMENTS = {
    "int": st.integers(-3, 3),
    "bool": st.booleans(),
    "indices": NEAR_INDICES,
    "object": NEAR_OBJECTS,
    "grid": GRIDS,
    "tuple of int": st.lists(SMALL, max_size=4).map(tuple),
    "set of int": st.frozensets(SMALL, max_size=3),
    "tuple of indices": st.lists(st.frozensets(st.tuples(SMALL, SMALL), max_size=2), max_size=3).map(tuple),
    "set of indices": st.frozensets(st.frozensets(st.tuples(SMALL, SMALL), max_size=2), max_size=3),
}


def offsets(sizes):
    return offsets_of(torch.tensor(sizes, dtype=torch.int64))


@pytest.mark.parametrize("form", ELEMENTS)
@given(st.data())
def test_sets_of_anything_get_the_order_of_python_values(form, data):
    lists = data.draw(st.lists(st.lists(ELEMENTS[form], max_size=6), min_size=1, max_size=4))
    column = build([value for values in lists for value in values], form, DEVICE)
    result = segments.canonical(Lists(column, offsets(list(map(len, lists))), True))
    assert isinstance(result, Lists)
    well_formed(result)
    same(result, build([frozenset(values) for values in lists], f"set of {form}", DEVICE))


@given(st.lists(st.lists(st.lists(SMALL, max_size=4), max_size=6), max_size=4), st.booleans())
def test_ranks_are_places_in_order_and_the_loops_have_plain_twins(lists, larger_first):
    sequences = [sequence for values in lists for sequence in values]
    keys = torch.tensor([key for sequence in sequences for key in sequence], dtype=torch.int64)
    given_ranks = (keys, offsets(list(map(len, sequences))), offsets(list(map(len, lists))), larger_first)
    compiled = segments.ranks(*given_ranks)
    assert torch.equal(compiled, segments.ranks_plain(*given_ranks))
    expected = []
    for values in lists:
        known = sorted({tuple(value) for value in values}, key=lambda v: (-len(v) if larger_first else 0, v))
        expected += [known.index(tuple(value)) for value in values]
    assert compiled.tolist() == expected


def test_one_list_of_many_sets():
    rng = random.Random(0)
    sets = [frozenset((rng.randrange(4), rng.randrange(4)) for _ in range(rng.randrange(5))) for _ in range(3_000)]
    sets += [frozenset((n, m) for m in range(9)) for n in range(900)]
    rng.shuffle(sets)
    whole = Lists(build(sets, "indices", DEVICE), torch.tensor([0, len(sets)]), True)
    expected = build([frozenset(sets)], "set of indices", DEVICE)
    result = segments.canonical(whole)
    assert result is not None
    same(result, expected)
    column = whole.elements
    given_ranks = (column.keys, column.offsets, whole.offsets, True)  # pyright: ignore[reportAttributeAccessIssue]
    assert torch.equal(segments.ranks(*given_ranks), segments.ranks_plain(*given_ranks))


@given(st.lists(st.lists(st.integers(-5, 5), max_size=6), max_size=4))
def test_sorted_keys_and_their_plain_twins(lists):
    keys = torch.tensor([key for values in lists for key in values], dtype=torch.int64)
    starts = offsets(list(map(len, lists)))
    for compiled, plain in (
        (segments.sort_unique, segments.sort_unique_plain),
        (segments.sort_unique_index, segments.sort_unique_index_plain),
    ):
        for left, right in zip(compiled(keys, starts), plain(keys, starts), strict=True):
            assert torch.equal(left, right)
    index, _ = segments.sort_unique_index(keys, starts)
    assert keys[index].tolist() == [key for values in lists for key in sorted(set(values))]
    unique, unique_starts = segments.sort_unique(keys, starts)
    other, other_starts = segments.sort_unique(keys + 1, starts)
    given_sets = (unique, unique_starts, other, other_starts)
    assert torch.equal(segments.member(*given_sets), segments.member_plain(*given_sets))


def test_grids_are_rows_of_numbers():
    grids = [(), ((),), ((1, 2), (3, 4)), random_grid(random.Random(1), 3, 5)]
    column = build(grids, "grid", DEVICE)
    rows = segments.rows_of(column)  # pyright: ignore[reportArgumentType]
    assert rows.decode(range(len(grids))) == grids
