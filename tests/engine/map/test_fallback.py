"""Failed items get a second try another way."""

from typing import Any

import pytest
import torch

from brimful import Batch, InputError, Status

from .mapping import double, rows, run, same


def narrow(x: torch.Tensor) -> torch.Tensor:
    """Overflows in float32 where float64 would not."""
    return (x * 1e30) * 1e30 / 1e50


def picky(x: torch.Tensor) -> torch.Tensor:
    if (x[:, 0] > 20).any():
        raise ValueError("too large")
    return x * 2


def broken(x: torch.Tensor) -> torch.Tensor:
    raise OSError("worse")


def test_another_function_saves_what_the_first_failed_on():
    items = rows(50)
    result = run(picky, items, fallback=lambda x: x * 3)
    saved = items[:, 0] > 20
    assert saved.any()
    assert (result.status[saved.numpy()] == Status.RESCUED).all()
    assert (result.status[~saved.numpy()] == Status.OK).all()
    assert result.ok.all()
    assert same(result.values, torch.where(saved[:, None], items * 3, items * 2))


def test_a_wider_dtype_saves_what_overflowed_and_the_result_keeps_its_dtype():
    items = torch.tensor([1e-10, 1.0, 1e-20])
    plain = run(narrow, items)
    assert plain.status.tolist() == [2, 2, 2]
    result = run(narrow, items, fallback=torch.float64)
    assert result.status.tolist() == [Status.RESCUED] * 3
    assert result.values.dtype == torch.float32
    assert result.values.tolist() == pytest.approx([1.0, 1e10, 1e-10], rel=1e-6)


def test_whole_numbers_stay_as_they_are_under_a_wider_dtype():
    seen: list[tuple[torch.dtype, torch.dtype]] = []

    def function(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        seen.append((batch["x"].dtype, batch["n"].dtype))
        return narrow(batch["x"])

    run(function, {"x": torch.ones(2), "n": torch.ones(2, dtype=torch.int32)}, fallback=torch.float64)
    assert set(seen) == {(torch.float32, torch.int32), (torch.float64, torch.int32)}


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")])
def test_another_device_is_tried(device: Any):
    tries: list[int] = []

    def flaky(x: torch.Tensor) -> torch.Tensor:
        tries.append(len(x))
        return x / 0 if len(tries) == 1 else x

    result = run(flaky, torch.ones(5), batch_size=5, fallback=device)
    assert result.status.tolist() == [Status.RESCUED] * 5
    assert result.values.tolist() == [1.0] * 5


def test_when_the_fallback_fails_too_both_reasons_are_told():
    result = run(picky, rows(30), batch_size=30, fallback=broken)
    bad = rows(30)[:, 0] > 20
    assert (result.status[bad.numpy()] == Status.FAILED).all()
    assert (result.status[~bad.numpy()] == Status.OK).all()
    assert set(result.messages.values()) == {"ValueError: too large; the fallback too: OSError: worse"}
    assert result.values[bad].isnan().all()
    assert same(result.values[~bad], rows(30)[~bad] * 2)


def test_a_fallback_saves_some_and_not_others():
    def half(x: torch.Tensor) -> torch.Tensor:
        if (x[:, 0] > 25).any():
            raise ValueError("still too large")
        return x * 3

    items = rows(40)
    result = run(picky, items, fallback=half)
    expected = torch.where(items[:, 0] > 25, 3, torch.where(items[:, 0] > 20, 1, 0))
    assert result.status.tolist() == expected.tolist()


def test_what_the_function_flagged_itself_is_tried_again_but_its_own_codes_are_not():
    def flagging(x: torch.Tensor) -> Batch:
        return Batch(x * 2, torch.arange(len(x)) % 3 * 8 + (torch.arange(len(x)) % 3 == 1) * -5)

    result = run(flagging, rows(6), batch_size=6, fallback=lambda x: x * 5)
    assert result.status.tolist() == [0, 1, 16, 0, 1, 16]
    assert same(result.values[1], rows(6)[1] * 5)
    assert same(result.values[2], rows(6)[2] * 2)


def test_a_flag_without_a_message_and_a_fallback_that_fails():
    result = run(lambda x: Batch(x, torch.full((len(x),), 3)), rows(2), fallback=broken)
    assert result.status.tolist() == [3, 3]
    assert "the fallback too: OSError: worse" in result.messages[0]


def test_a_fallback_that_gives_nonfinite_numbers_saves_nothing():
    result = run(narrow, torch.ones(3), fallback=lambda x: x / 0)
    assert result.status.tolist() == [Status.NONFINITE] * 3
    assert result.messages[0] == "the result is not finite; the fallback too: the result is not finite"


def test_items_that_do_not_fit_the_fallback_together_are_tried_in_parts():
    sizes: list[int] = []

    def small(x: torch.Tensor) -> torch.Tensor:
        sizes.append(len(x))
        if len(x) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return x

    result = run(lambda x: x / 0, torch.ones(9), batch_size=9, fallback=small)
    assert result.status.tolist() == [Status.RESCUED] * 9
    assert max(sizes) == 9


def test_an_item_too_big_is_tried_by_the_fallback():
    def hungry(x: torch.Tensor) -> torch.Tensor:
        if (x == 3).any():
            raise torch.OutOfMemoryError("CUDA out of memory")
        return x * 2

    result = run(hungry, torch.arange(6.0), batch_size=6, fallback=lambda x: x * 10)
    assert result.status.tolist() == [0, 0, 0, Status.RESCUED, 0, 0]
    assert result.values.tolist() == [0, 2, 4, 30, 8, 10]


def test_all_of_the_first_batch_can_be_rescued():
    result = run(lambda x: x / 0, torch.ones(6), batch_size=2, fallback=double)
    assert result.status.tolist() == [Status.RESCUED] * 6
    assert result.values.tolist() == [2.0] * 6


def test_memory_that_is_the_functions_own_is_not_written_to():
    kept = torch.full((4, 2), float("inf"))
    result = run(lambda x: kept[: len(x)], rows(4), batch_size=4, fallback=lambda x: x[:, :2] * 0)
    assert result.status.tolist() == [Status.RESCUED] * 4
    assert kept.isinf().all()
    expanded = run(
        lambda x: torch.tensor(float("nan")).expand(len(x)), rows(4), batch_size=4, fallback=lambda x: x[:, 0]
    )
    assert same(expanded.values, rows(4)[:, 0])


@pytest.mark.parametrize("other", [lambda x: (x, x), lambda x: x[:, :2], lambda x: {"a": x}])
def test_a_fallback_of_another_form_is_refused(other: Any):
    with pytest.raises(InputError, match=r"the fallback returned .* must be the same"):
        run(lambda x: x / 0, rows(4), batch_size=4, fallback=other)


def test_what_is_no_fallback_is_refused():
    with pytest.raises(InputError, match="give a function, a dtype"):
        run(double, rows(4), fallback=3)
