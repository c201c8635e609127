"""Items stacked at once are what they are one by one, and whatever is not alike is left to that."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from brimful.core.base import pytree
from brimful.data.stacking import stack


class Pair(NamedTuple):
    x: Any
    y: Any


ALIKE: dict[str, list[Any]] = {
    "floats": [1.0, 2.5],
    "whole numbers": [1, 2, 3],
    "truths": [True, False],
    "numpy numbers": [np.float32(1), np.float32(2)],
    "tensors": [torch.arange(3), torch.arange(3)],
    "conjugates": [torch.tensor([1j]).conj(), torch.tensor([2j]).conj()],
    "arrays": [np.ones((2, 2)), np.zeros((2, 2))],
    "lists": [[1.0, 2.0], [3.0, 4.0]],
    "tuples": [(1.0, torch.ones(2)), (2.0, torch.zeros(2))],
    "named tuples": [Pair(1, [2.0]), Pair(3, [4.0])],
    "dicts": [{"a": 1, "b": np.ones(2)}, {"a": 2, "b": np.ones(2)}],
}


@pytest.mark.parametrize("kind", list(ALIKE))
def test_items_that_are_alike_are_stacked_as_one_by_one(kind: str):
    stacked = stack(ALIKE[kind])
    rows = [pytree.apply(pytree.tensors(item), lambda tensor: tensor.unsqueeze(0)) for item in ALIKE[kind]]
    expected = pytree.join(rows)
    assert stacked is not None and type(stacked) is type(expected)
    assert pytree.spec(stacked) == pytree.spec(expected)
    for (_, one), (_, other) in zip(pytree.leaves(stacked), pytree.leaves(expected), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "items",
    [
        [],
        [1, 2.0],
        [torch.zeros(2), torch.zeros(3)],
        [torch.zeros(2), torch.zeros(2, dtype=torch.float64)],
        [np.zeros(2), np.zeros(2, np.float32)],
        [np.zeros(2, ">f8"), np.zeros(2, ">f8")],
        [[1, 2], [1.0, 2.0]],
        [[1, 2], [1]],
        ["text", "more"],
        [10**30, 10**31],
        [{"a": 1}, {"b": 1}],
        [(1,), (1, 2)],
        [None, None],
        [object(), object()],
    ],
)
def test_what_is_not_alike_is_left(items: list[Any]):
    assert stack(items) is None
