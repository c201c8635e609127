"""Tests of literal cases: values with their types, failures with their exceptions, and values beyond the bound."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from brimful.programs.vocabulary.bound import SizeError

Test = Callable[..., None]


def literal_cases(
    values: Sequence[tuple[Any, ...]], failures: Sequence[tuple[Any, ...]], too_large: Sequence[tuple[Any, ...]]
) -> tuple[Test, Test, Test]:
    """One test of each kind, with a case per (function, arguments) and what is expected of it."""

    @pytest.mark.parametrize(("function", "arguments", "expected"), values)
    def test_values(function: Any, arguments: Any, expected: Any) -> None:
        assert function(*arguments) == expected
        assert type(function(*arguments)) is type(expected)

    @pytest.mark.parametrize(("function", "arguments", "error"), failures)
    def test_failures(function: Any, arguments: Any, error: Any) -> None:
        with pytest.raises(error):
            function(*arguments)

    @pytest.mark.parametrize(("function", "arguments"), too_large)
    def test_values_beyond_the_bound(function: Any, arguments: Any) -> None:
        with pytest.raises(SizeError):
            function(*arguments)

    return test_values, test_failures, test_values_beyond_the_bound
