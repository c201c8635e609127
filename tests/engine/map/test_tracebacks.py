"""Errors of the function keep what a user looks for in them: the frames of his own code."""

import traceback
from concurrent.futures import Future

import pytest
import torch

import brimful
from brimful.core.memory.cost import Cost

X = torch.arange(20.0)


def inner(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("wrong")


def frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def run(function, **options):
    return brimful.map(function, X, progress=False, device="cpu", **options)


@pytest.mark.parametrize("retries", [0, 2])
def test_an_error_of_all_items_shows_where_it_was_raised(retries: int):
    def function(x: torch.Tensor) -> torch.Tensor:
        return inner(x)

    with pytest.raises(ValueError, match="wrong") as caught:
        run(function, retries=retries)
    assert frames(caught.value)[-2:] == ["function", "inner"]


def test_and_where_its_cause_was():
    def function(x: torch.Tensor) -> torch.Tensor:
        try:
            return inner(x)
        except ValueError as error:
            raise RuntimeError("of that") from error

    with pytest.raises(RuntimeError, match="of that") as caught:
        run(function)
    assert frames(caught.value)[-1] == "function"
    cause = caught.value.__cause__
    assert cause is not None
    assert frames(cause)[-1] == "inner"


def test_and_where_the_same_error_is_raised_each_time():
    future: Future[torch.Tensor] = Future()
    try:
        inner(X)
    except ValueError as error:
        future.set_exception(error)

    with pytest.raises(ValueError, match="wrong") as caught:
        run(lambda x: future.result(), cost=Cost(0, 100))  # with no cost known, one item is tried for it before
    assert "inner" in frames(caught.value)


def test_an_exception_that_the_caller_is_handling_keeps_its_frames():
    def fails(x: torch.Tensor) -> torch.Tensor:
        if (x == 5).any():
            raise ValueError("five")
        return x

    try:
        inner(X)
    except ValueError as error:
        result = run(fails)
        assert result.ok.sum() == len(X) - 1
        assert frames(error)[-1] == "inner"
