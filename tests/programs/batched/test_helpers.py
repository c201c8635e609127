"""What compares batched with sequential operations notices where they differ."""

import pytest
import torch

from brimful.programs.batched.columns import Ints, Patches, PatchKind
from brimful.programs.batched.convert import encode
from brimful.programs.batched.flags import Step
from brimful.programs.batched.rows import offsets_of
from brimful.programs.execution.failures import Category
from tests.programs.batched.helpers import DEVICE, check, compare, function


def test_an_operation_over_columns_and_functions():
    patches = [frozenset({(0, 1), (2, 2)}), frozenset(), frozenset({(5, 5)})]
    assert compare("apply", function("first"), patches) >= 0
    assert (
        compare("apply", function("rbind", function("add"), [1], rows=3), [frozenset({1, 2}), frozenset({3}), ()]) >= 0
    )
    twice = function("power", function("double"), [2], rows=2)
    for lists in ([frozenset(), frozenset()], [frozenset({1}), frozenset({2, 3})]):
        assert compare("apply", twice, lists, forms=[None, "set of int"]) == 0
    assert compare("first", [(1, 2), (), None, frozenset()]) >= 0


def test_values_types_categories_and_order_are_compared():
    ones = Step(Ints(torch.tensor([1, 1])))
    check(ones, [(Category.NONE, 1), (Category.NONE, 1)])
    for other in ([(Category.NONE, 1), (Category.NONE, 2)], [(Category.NONE, 1), (Category.NONE, True)]):
        with pytest.raises(AssertionError):
            check(ones, other)
    with pytest.raises(AssertionError):
        check(ones, [(Category.NONE, 1), (Category.TYPE, None)])
    value = frozenset({(0, 1), (2, 2)})
    column, _ = encode([value], DEVICE)
    assert isinstance(column, Patches)
    check(Step(column), [(Category.NONE, value)])
    for keys in (column.keys.flip(0), column.keys[[0, 0, 1]]):
        wrong = Patches(keys, offsets_of(torch.tensor([len(keys)])), PatchKind.INDICES)
        with pytest.raises(AssertionError):
            check(Step(wrong), [(Category.NONE, value)])
