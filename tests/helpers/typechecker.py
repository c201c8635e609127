"""The checker of annotations: beartype, for those that say the shape of a tensor. What else is annotated is pyright's
matter, and tests hand in wrong types on purpose."""

import inspect
import typing
from collections.abc import Callable
from typing import Any

import jaxtyping
from beartype import beartype


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with its arguments and its result checked."""
    hints = getattr(function, "__annotations__", {})
    shapes = {name: hint for name, hint in hints.items() if _has_shape(hint)}
    if not shapes:
        return function
    function.__annotations__ = shapes
    return beartype(function)


def _has_shape(hint: Any) -> bool:
    if inspect.isclass(hint) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(_has_shape(part) for part in typing.get_args(hint))
