"""One batch at a time: what the function gets, what becomes of what it returns, and of the items it fails on."""

import contextlib
import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.base.errors import DeviceError, InputError
from brimful.core.base.ragged import Ragged
from brimful.core.memory.oom import InseparableBatch, error_line, is_device_lost, is_out_of_memory
from brimful.engine.map.batch import Batch, Status
from brimful.engine.map.executor import BatchResult, Executor
from brimful.engine.map.fallback import make_executor
from brimful.engine.map.sources import LoadedBatch

from .mapping import Recorded, rows, same, stamped

CPU = torch.device("cpu")


def batch(tree: Any, **options: Any) -> LoadedBatch:
    return LoadedBatch(0, len(tree), tree, **options)


def once(fn: Callable[[Any], Any], tree: Any, **options: Any) -> BatchResult:
    return make_executor(fn, CPU, **options).run(batch(tree))


def fails_on(bad: Sequence[int], fn: Callable[[Any], Any] = stamped) -> Callable[[torch.Tensor], Any]:
    """A function of rows numbered by their first column times three, that fails on some of them."""

    def function(x: torch.Tensor) -> Any:
        for number in (x[:, 0]).round().int().tolist():
            if number in bad:
                raise ValueError(f"row {number}\nand more")
        return fn(x)

    return function


def numbered(count: int) -> torch.Tensor:
    return torch.arange(count, dtype=torch.float32).repeat(3, 1).T.contiguous() + 0.1


@pytest.mark.parametrize("fresh", [False, True])
def test_results_are_copied_unless_they_are_fresh(fresh: bool):
    """As a tensor, and as samples of any length."""
    flat, ragged = torch.arange(6.0), Ragged(torch.arange(9), torch.tensor([0, 2, 5, 9]))
    done = once(lambda x: Batch({"flat": flat.view(3, 2), "ragged": ragged}, fresh=fresh), rows(3))
    values: Any = done.values
    assert (values["flat"].data_ptr() == flat.data_ptr()) == fresh
    assert (values["ragged"].values.data_ptr() == ragged.values.data_ptr()) == fresh
    assert values["flat"].tolist() == [[0, 1], [2, 3], [4, 5]] and values["ragged"].values.tolist() == list(range(9))


def test_a_batch_comes_back_as_the_function_gave_it():
    done = once(lambda x: {"a": x + 1, "n": x.long()}, rows(4))
    assert done.values is not None
    assert same(done.values["a"], rows(4) + 1)
    assert same(done.values["n"], rows(4).long())
    assert done.status.tolist() == [0] * 4
    assert (done.messages, done.reran) == ({}, False)
    assert not done.status.any()


def test_the_function_may_spoil_what_it_gets():
    items = rows(4)
    done = once(lambda x: x.mul_(2), items)
    assert same(items, rows(4))
    assert done.values is not None
    assert same(done.values, rows(4) * 2)


def test_gradients_do_not_come_along():
    weight = torch.ones(3, requires_grad=True)
    done = once(lambda x: x * weight, rows(2))
    assert done.values is not None
    assert not done.values.requires_grad


def test_nonfinite_rows_are_flagged_and_keep_their_values():
    x = rows(4)
    x[1, 2], x[3, 0] = float("inf"), float("nan")
    done = once(lambda x: (x, x.long()), x)
    assert done.status.tolist() == [0, Status.NONFINITE, 0, Status.NONFINITE]
    assert done.messages == {1: "the result is not finite", 3: "the result is not finite"}
    assert done.values is not None
    assert same(done.values[0], x)
    assert once(lambda x: x, x, nonfinite="allow").status.tolist() == [0] * 4


def test_what_the_function_says_of_its_items_is_kept():
    x = rows(5)
    x[4] = float("nan")
    said = torch.tensor([0, 16, 127, 3, 0])
    done = once(lambda x: Batch(x, said, {1: "mine", 3: "bad", 0: "a note", 9: "nobody"}), x)
    assert done.status.tolist() == [0, 16, 127, 3, 2]
    assert done.messages == {0: "a note", 1: "mine", 3: "bad", 4: "the result is not finite"}
    assert np.count_nonzero(done.status) == 4


def test_what_a_code_means_is_said_of_every_item_that_has_it():
    x = rows(6)
    x[4] = float("nan")
    said, meaning = torch.tensor([0, 17, 3, 17, 17, 0]), {17: "odd", 3: "wrong", 40: "never"}
    done = once(lambda x: Batch(x, said, {1: "its own"}, meaning), x)
    assert list(done.messages.items()) == [(1, "its own"), (2, "wrong"), (3, "odd"), (4, "odd")]
    done = once(lambda x: Batch(x, None, {}, {0: "good"}), x)
    assert done.messages == dict.fromkeys((0, 1, 2, 3, 5), "good") | {4: "the result is not finite"}


@pytest.mark.parametrize("code", [-1, 6, 15, 128, 300])
def test_codes_that_are_nobodys_are_refused(code: int):
    with pytest.raises(InputError, match=f"{code}; use a Status, or codes of your own from 16 to 127"):
        once(lambda x: Batch(x, torch.full((2,), code)), rows(2))


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda x: x[:2], "got 3 items and returned 2 rows"),
        (lambda x: x.sum(), "a single number"),
        (lambda x: (x, x[:1]), "leading axis"),
        (lambda x: None, "NoneType"),
        (lambda x: {}, "no tensors"),
        (lambda x: Batch(x, torch.zeros(2)), "Batch.status"),
        (lambda x: Batch(x, torch.zeros(3)), "whole numbers"),
    ],
)
def test_a_result_of_the_wrong_form_is_an_error_that_says_so(returned: Callable[[Any], Any], words: str):
    with pytest.raises(InputError, match=words):
        once(returned, rows(3))


@given(st.integers(1, 24), st.data())
def test_any_set_of_bad_items_is_found_and_the_others_are_as_without_them(count: int, data: st.DataObject):
    bad = sorted(data.draw(st.sets(st.integers(0, count - 1), max_size=count - 1)))
    x = numbered(count)
    done = once(fails_on(bad), x)
    assert np.flatnonzero(done.status).tolist() == bad
    assert set(done.status.tolist()) <= {0, Status.FAILED}
    assert done.messages == {item: f"ValueError: row {item}" for item in bad}
    assert done.reran == bool(bad)
    good = [item for item in range(count) if item not in bad]
    assert done.values is not None
    assert same(done.values[good], stamped(x)[good])
    assert done.values[bad].isnan().all()


@given(st.sets(st.integers(0, 11), min_size=1, max_size=11))
def test_a_bad_item_changes_no_bit_of_its_neighbors_even_in_a_function_that_mixes_rows(bad: set[int]):
    def mixed(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.qr(x @ x.T + torch.eye(len(x))).Q[:, :2] + x[:, :2]

    x = torch.rand(12, 3, generator=torch.Generator().manual_seed(0))
    x[:, 0] = torch.arange(12)
    good = [item for item in range(12) if item not in bad]
    without = x.clone()
    without[sorted(bad)] = x[good[0]]
    done = once(fails_on(sorted(bad), mixed), x)
    assert done.values is not None
    assert same(done.values[good], mixed(without)[good])


def test_all_bad_after_the_function_has_worked():
    executor = Executor(fails_on(range(10, 14)), CPU)
    x = numbered(14)
    assert not executor.run(batch(x[:10])).status.any()
    done = executor.run(LoadedBatch(10, 4, x[10:]))
    assert done.status.tolist() == [Status.FAILED] * 4
    assert done.values is not None
    assert done.values.shape == (4, 3)
    assert done.values.isnan().all()


def test_a_few_items_that_all_fail_are_flagged():
    done = once(fails_on(range(3)), numbered(3))
    assert done.status.tolist() == [Status.FAILED] * 3
    assert done.values is None


@pytest.mark.parametrize("count", [4, 64, 1000])
def test_a_function_that_is_wrong_raises_its_own_error_and_is_not_tried_forever(count: int):
    def wrong(x: torch.Tensor) -> torch.Tensor:
        raise KeyError("no such thing")

    recorded = Recorded(wrong)
    with pytest.raises(KeyError, match="no such thing") as caught:
        once(recorded, rows(count))
    assert any("has not worked once" in note for note in caught.value.__notes__)
    assert len(recorded.sizes) <= 65


def test_an_item_that_could_not_be_read_does_not_spoil_its_batch():
    def strict(x: torch.Tensor) -> torch.Tensor:
        if (x == 0).any():
            raise ZeroDivisionError("by zero")
        return stamped(x)

    x = numbered(6)
    x[2] = 0
    done = Executor(strict, CPU).run(batch(x, bad={2: "column 'a' is null"}))
    assert done.status.tolist() == [0, 0, Status.FAILED, 0, 0, 0]
    assert done.messages == {2: "column 'a' is null"}
    assert done.values is not None
    assert done.values[2].isnan().all()
    assert same(done.values[3:], stamped(x)[3:])


def test_a_batch_with_nothing_readable_is_all_failed():
    done = Executor(stamped, CPU).run(LoadedBatch(0, 2, None, {0: "text", 1: "text"}))
    assert done.status.tolist() == [Status.FAILED] * 2
    assert done.values is None


def test_items_that_fail_only_together_are_inseparable():
    def together(x: torch.Tensor) -> torch.Tensor:
        if {2, 5} <= set(x[:, 0].int().tolist()):
            raise ValueError("both")
        return x

    executor = Executor(together, CPU)
    with pytest.raises(InseparableBatch):
        executor.run(batch(numbered(8)))


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"),
    ],
)
def test_out_of_memory_is_known_in_all_its_forms(error: Exception):
    def hungry(x: torch.Tensor) -> torch.Tensor:
        raise error

    executor = Executor(hungry, CPU)
    with pytest.raises(type(error)) as caught:
        executor.run(batch(rows(2)))
    assert caught.value is error
    assert is_out_of_memory(error)
    assert not is_device_lost(error)


def test_a_lost_device_ends_the_work_and_says_how_to_go_on():
    def assertion(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("CUDA error: device-side assert triggered")

    executor = Executor(assertion, CPU)
    with pytest.raises(DeviceError, match=r"positions 0 to 2.*is kept.*run the same command again"):
        executor.run(batch(rows(2)))


def test_other_errors_are_the_items():
    assert not is_out_of_memory(ValueError("out of memory of this"))
    assert not is_out_of_memory(RuntimeError("singular matrix"))
    assert error_line(ValueError("one\ntwo")) == "ValueError: one"
    assert error_line(ValueError()) == "ValueError"


@pytest.mark.parametrize("kind", [torch.OutOfMemoryError, ValueError])
def test_the_tensors_of_a_failed_call_are_let_go(kind: type[Exception]):
    held: list[weakref.ref[torch.Tensor]] = []

    def leaky(x: torch.Tensor) -> torch.Tensor:
        big = x.clone()
        held.extend((weakref.ref(big), weakref.ref(x)))
        raise kind("CUDA out of memory")

    executor = Executor(leaky, CPU, lenient=True)
    gc.collect()
    gc.disable()  # memory must be there for the next batch, not some time later
    try:
        for _ in range(2):
            with contextlib.suppress(torch.OutOfMemoryError):
                executor.run(batch(rows(2)))
        assert [tensor() for tensor in held] == [None] * len(held)
    finally:
        gc.enable()


def test_results_that_there_is_no_room_to_copy_are_no_room_at_all():
    executor = Executor(lambda x: x, CPU)
    with (
        patch.object(torch.Tensor, "detach", side_effect=torch.OutOfMemoryError("CUDA out of memory")),
        pytest.raises(torch.OutOfMemoryError),
    ):
        executor.run(batch(rows(2)))


def test_an_item_too_big_has_a_blank_row_of_the_right_form():
    executor = Executor(lambda x: (x[:, 0], x.long()), CPU)
    assert executor.too_big(LoadedBatch(0, 1, rows(1))).values is None
    executor.run(batch(rows(3)))
    done = executor.too_big(LoadedBatch(3, 1, rows(1)))
    assert done.status.tolist() == [Status.TOO_BIG]
    assert "does not fit" in done.messages[0]
    assert done.values is not None
    assert done.values[0].isnan().tolist() == [True]
    assert done.values[1].tolist() == [[0, 0, 0]]
