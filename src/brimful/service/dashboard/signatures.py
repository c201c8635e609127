"""What NiceGUI asks Python of each element: three times whether a method takes arguments, which is answered by reading
its signature. That took a third of the time in which a page is made."""

from collections.abc import Callable
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from nicegui import helpers

Asked = Callable[[Callable[..., Any]], bool]


def remember_signatures() -> None:
    """Has NiceGUI look at each method once, whatever object it belongs to."""
    helpers.expects_arguments = _remembering(helpers.expects_arguments)


def _remembering(asked: Asked) -> Asked:
    known: WeakKeyDictionary[FunctionType, bool] = WeakKeyDictionary()

    def expects_arguments(function: Callable[..., Any]) -> bool:
        method = getattr(function, "__func__", None)
        if not isinstance(method, FunctionType):
            return asked(function)
        if method not in known:
            known[method] = asked(function)
        return known[method]

    return expects_arguments
