"""Batches of every form keep it, whatever is done to them."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.base import pytree
from brimful.core.base.errors import InputError

from ...engine.map.mapping import same


class Pair(NamedTuple):
    left: Any
    right: Any


def forms(x: torch.Tensor) -> list[Any]:
    return [x, (x, x + 1), [x], {"a": x, "b": (x, {"c": x + 2})}, Pair(x, (x + 3,))]


def equal(first: Any, second: Any) -> bool:
    return type(first) is type(second) and all(
        a[0] == b[0] and same(a[1], b[1]) for a, b in zip(pytree.leaves(first), pytree.leaves(second), strict=True)
    )


def test_leaves_are_named_by_their_way():
    x = torch.zeros(2)
    assert [name for name, _ in pytree.leaves({"a": x, "b": (x, {"c": x})})] == ["a", "b.0", "b.1.c"]
    assert pytree.leaves(x)[0][0] == ""


@pytest.mark.parametrize("place", range(5))
def test_cutting_and_joining_give_the_same_tree_back(place: int):
    whole = forms(torch.arange(10.0).reshape(5, 2))[place]
    parts = [pytree.slice_rows(whole, 0, 2), pytree.slice_rows(whole, 2, 3), pytree.slice_rows(whole, 3, 5)]
    assert [pytree.rows(part) for part in parts] == [2, 1, 2]
    assert equal(pytree.join(parts), whole)


def test_a_cut_is_no_copy_and_a_pick_is():
    x = torch.arange(6.0)
    pytree.slice_rows(x, 1, 3)[0] = -1
    assert x[1] == -1
    pytree.take_rows(x, torch.tensor([0, 0]))[0] = -2
    assert x[0] == 0


@pytest.mark.parametrize("wrong", [np.zeros(3), "text", 5, None, {"a": [torch.zeros(2), "text"]}])
def test_what_is_no_tensor_is_named(wrong: Any):
    with pytest.raises(InputError, match="must be a tensor"):
        pytree.leaves(wrong)
    with pytest.raises(InputError, match="must be a tensor"):
        pytree.apply(wrong, torch.clone)


def test_lengths_that_differ_are_shown():
    with pytest.raises(InputError, match=r"a: 3, b: 4"):
        pytree.rows({"a": torch.zeros(3), "b": torch.zeros(4)})
    with pytest.raises(InputError, match="leading axis"):
        pytree.rows(torch.tensor(1.0))
    with pytest.raises(InputError, match="no tensors"):
        pytree.rows({})


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0)[::-1],
        np.arange(12, dtype=np.int16).reshape(3, 4).T,
        np.array([True, False]),
        np.arange(3, dtype=np.float16),
        np.zeros((0, 3)),
    ],
)
def test_arrays_become_tensors_with_their_numbers(array: np.ndarray):
    tensor = pytree.tensors(array)
    assert tensor.numpy().dtype == array.dtype
    assert np.array_equal(tensor.numpy(), array)


def test_a_read_only_array_is_taken_without_a_word_and_without_a_copy():
    array = np.arange(4.0)
    array.flags.writeable = False
    tensor = pytree.tensors({"a": (array, [1, 2])})["a"][0]
    assert tensor.data_ptr() == array.ctypes.data  # a mapped file stays on disk


@pytest.mark.parametrize("wrong", [["a", "b"], [object()], [[1, 2], [3]], np.array(["x"])])
def test_what_cannot_become_a_tensor_is_named(wrong: Any):
    with pytest.raises(InputError, match=r"items\['part'\]"):
        pytree.tensors({"part": wrong})


def test_gradients_are_left_behind():
    assert not pytree.tensors(torch.ones(3, requires_grad=True)).requires_grad


def test_finite_rows_look_at_every_floating_part():
    x = torch.ones(4, 2, 2)
    x[1, 0, 1] = float("nan")
    y = torch.ones(4, dtype=torch.complex64)
    y[3] = float("inf")
    flags = pytree.finite_rows((x, {"y": y, "n": torch.arange(4)}))
    assert flags is not None
    assert flags.tolist() == [True, False, True, False]
    assert pytree.finite_rows(torch.arange(4)) is None


def test_finite_rows_of_rows_that_hold_nothing():
    flags = pytree.finite_rows(torch.zeros(3, 0))
    assert flags is not None
    assert flags.tolist() == [True, True, True]


@given(st.permutations(range(7)), st.integers(1, 7))
def test_placed_rows_are_where_they_belong(order: list[int], count: int):
    index = np.array(order[:count])
    whole = {"x": torch.full((7, 2), -1.0)}
    part = {"x": torch.from_numpy(np.stack([index, index], axis=1)).float()}
    pytree.put_rows(whole, index, part)
    expected = [[float(i)] * 2 if i in index else [-1.0] * 2 for i in range(7)]
    assert whole["x"].tolist() == expected


@pytest.mark.parametrize("other", [torch.zeros(2, 3).double(), torch.zeros(2, 4), (torch.zeros(2, 3),)])
def test_batches_of_another_form_are_refused(other: Any):
    with pytest.raises(InputError, match="must be the same in all"):
        pytree.put_rows(torch.zeros(4, 3), np.array([2, 3]), other)


def test_blank_rows_say_nothing():
    blank = pytree.blank_rows({"f": torch.ones(2, 3), "n": torch.ones(2, dtype=torch.int32)}, 4)
    assert blank["f"].isnan().all()
    assert blank["f"].shape == (4, 3)
    assert blank["n"].tolist() == [0] * 4
    assert blank["n"].dtype == torch.int32
