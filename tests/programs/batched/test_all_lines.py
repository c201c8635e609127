"""Lines between all locations of two sets: compiled, in plain torch, and as the operations make them one by one."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.programs.batched.columns import Lists, Patches
from brimful.programs.batched.convert import build
from brimful.programs.batched.operations import all_lines
from brimful.programs.batched.operations.elements import as_list
from brimful.programs.vocabulary.arc import ARC
from tests.programs.batched.helpers import DEVICE, NEAR_INDICES, in_plain_torch, same

NEAR = st.integers(-4, 6)
PLACES = st.one_of(NEAR, st.integers(-40, 40), st.sampled_from([-(1 << 14), (1 << 14) - 1]))
SETS = st.lists(st.one_of(NEAR_INDICES, st.frozensets(st.tuples(PLACES, PLACES), max_size=8)), min_size=1, max_size=5)


def lists_of(values) -> Lists:
    lists = as_list(build(values, "indices", DEVICE))
    assert lists is not None
    return lists


def lines(left, right, is_same, most=1 << 22, group=1 << 16):
    computed = all_lines.lines_between(left, right, is_same, most, group)
    assert computed is not None
    return computed


@given(SETS, st.booleans(), st.integers(1, 60), st.sampled_from([1, 7, 1 << 16]))
def test_all_ways_give_the_same_lines(values, is_same, most, group):
    others = values if is_same else values[::-1]
    left, right = lists_of(values), lists_of(others)
    compiled = lines(left, right, is_same)
    connect, prapply = ARC["connect"].function, ARC["prapply"].function
    expected = [prapply(connect, a, b) for a, b in zip(values, others, strict=True)]
    same(compiled.column, build(expected, "set of indices", DEVICE))
    bounded = lines(left, right, is_same, most)
    for one, limit in ((bounded, most), (compiled, 1 << 22)):
        plain = in_plain_torch(all_lines, lines, left, right, is_same, limit, group)
        assert _tensors(one) == _tensors(plain)


def _tensors(computed):
    column, failed = computed.column, computed.failed
    assert isinstance(column, Lists)
    assert isinstance(column.elements, Patches)
    failures = [] if failed is None else failed.tolist()
    parts = (column.offsets, column.elements.offsets, column.elements.keys, computed.reserved)
    return [part.tolist() for part in parts] + [failures]


def test_locations_far_away_are_left_to_others():
    far = lists_of([frozenset({(0, 0), (0, 1 << 14)})])
    assert all_lines.lines_between(far, far, True, 1 << 22, 1 << 16) is None


def test_a_row_that_reserves_too_much_fails_and_its_neighbors_do_not():
    values = [frozenset({(0, 0)}), frozenset((0, j) for j in range(6)), frozenset()]
    computed = lines(lists_of(values), lists_of(values), True, most=50)
    assert computed.failed is not None
    assert (computed.failed != 0).tolist() == [False, True, False]
    assert isinstance(computed.column, Lists)
    assert torch.equal(computed.column.offsets, torch.tensor([0, 1, 1, 1]))
