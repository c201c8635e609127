"""A vocabulary of a few operations, some of which always fail, and programs written in it."""

from __future__ import annotations

from collections import Counter

from brimful.programs.language import parse
from brimful.programs.language.operation import Vocabulary, declared
from brimful.programs.language.problems import Problem
from brimful.programs.language.program import Program
from brimful.programs.language.source import Source
from brimful.programs.language.types import Any, Boolean, Callable, Grid, Indices, Integer, Tuple
from brimful.programs.vocabulary import bound

CALLS: Counter[str] = Counter()


def twice(number: Integer) -> Integer:
    CALLS["twice"] += 1
    return number * 2


def plus(a: Integer, b: Integer) -> Integer:
    CALLS["plus"] += 1
    return a + b


def pair_of(a: Any, b: Any) -> Tuple:
    return (a, b)


def rows(grid: Grid) -> Integer:
    return len(grid)


def turned(grid: Grid) -> Grid:
    return grid[::-1]


def shown(samples: Any) -> Integer:
    CALLS["shown"] += 1
    return len(samples)


def adder(number: Integer) -> Callable:
    return lambda other: number + other


def at_least_three(number: Integer) -> Integer:
    if number < 3:
        raise IndexError(f"{number} is below three")
    return number


def no_integer(value: Any) -> Integer:
    raise IndexError("no integer")


def no_set(value: Any) -> Indices:
    raise ValueError("no set")


def no_flag(value: Any) -> Boolean:
    raise KeyError("no flag")


def no_function(value: Any) -> Callable:
    raise AttributeError("no function")


def no_grid(value: Any) -> Grid:
    raise ZeroDivisionError("no grid")


def no_type(value):
    raise TypeError("no type")


def no_more(value: Any) -> Any:
    return next(iter(()))


def endless(value: Any) -> Any:
    return endless(value)


def odd(value: Any) -> Any:
    raise AssertionError("odd")


def huge(value: Any) -> Tuple:
    bound.reserve(bound.ELEMENTS + 1)
    return (value,) * (bound.ELEMENTS + 1)


def no_memory(value: Any) -> Any:
    raise MemoryError("no memory")


_FUNCTIONS = (twice, plus, pair_of, rows, turned, shown, adder, at_least_three)
_FAILING = (no_integer, no_set, no_flag, no_function, no_grid, no_type, no_more, endless, odd, huge, no_memory)

WORDS = Vocabulary(
    "words", {function.__name__: declared(function) for function in (*_FUNCTIONS, *_FAILING)}, {"ONE": 1, "YES": True}
)


def read(text: str, file: str = "words.py") -> tuple[list[Program], list[Problem]]:
    """The programs of a text, and what is wrong with it."""
    return parse.programs(Source.read(text, file), WORDS)


def programs(text: str) -> list[Program]:
    parsed, problems = read(text)
    assert not problems, problems
    return parsed


def solver(*lines: str, name: str = "solve_x") -> str:
    """A solver of these statements, the last of which is what it returns."""
    return "\n".join([f"def {name}(I):", *(f"    {line}" for line in lines[:-1]), f"    return {lines[-1]}", ""])


def batt(*lines: str) -> str:
    """A batt of these lines."""
    body = ["s = []", "o = []", *lines, "return o, s"]
    return "\n".join(["def batt(task_id, S, I, C, log_path):", *(f"    {line}" for line in body), ""])


def guarded(target: str, call: str, default: str, caught: str = "(TypeError, ValueError)") -> tuple[str, ...]:
    """The lines of a try block, as the generator of batts writes it."""
    return ("try:", f"    {target} = {call}", f"except {caught}:", f"    {target} = _get_safe_default({default})")
