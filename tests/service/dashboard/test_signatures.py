"""What NiceGUI asks of the methods of elements; no browser is needed."""

from collections.abc import Callable
from typing import Any

from nicegui.helpers import expects_arguments

from brimful.service.dashboard.signatures import _remembering


class Element:
    def update(self) -> None: ...

    def take(self, value: int) -> None: ...

    @classmethod
    def make(cls, value: int) -> None: ...


def test_each_method_is_looked_at_once_and_the_answers_are_the_same():
    asked: list[Any] = []

    def counting(function: Callable[..., Any]) -> bool:
        asked.append(function)
        return expects_arguments(function)

    remembering = _remembering(counting)
    handlers: list[Callable[..., Any]] = [
        Element().update,
        Element().take,
        Element.make,
        Element.update,
        lambda: None,
        lambda value: None,
    ]
    for _ in range(3):
        assert [remembering(one) for one in handlers] == [False, True, True, True, False, True]
        handlers[:2] = Element().update, Element().take  # of another element
    assert len(asked) == 3 + 3 * 3
