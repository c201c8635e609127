"""Operations that users add: a decorator makes a plain function part of every vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any, overload

from ...core.base.arguments import check_type
from ...core.base.errors import ConfigError
from ..language.emit import may_name
from ..language.operation import Operation, Vocabulary, declared
from .arc import ARC
from .batt import BATT

_REGISTERED: dict[str, Operation] = {}

Function = Callable[..., Any]


@overload
def operation(function: Function, /) -> Function: ...
@overload
def operation(*, name: str | None = None, batched: Function | None = None) -> Callable[[Function], Function]: ...
def operation(
    function: Function | None = None, /, *, name: str | None = None, batched: Function | None = None
) -> Function | Callable[[Function], Function]:
    """Registers a function as an operation that programs can call by its name.

    Its annotations may name the types of programs (`Grid`, `Object`, `Integer`, ...); what has none is `Any`. The type
    of its result decides its safe default. It must depend on its arguments alone.

    Args:
        function: the meaning for one sample. It may raise: it then fails for that sample.
        name: by which programs call it; the function's own by default.
        batched: the same over all samples at once, where there is such a form: a kernel of the batched executor, as
            `batched/kernels.py` describes them. It must give what the function gives for every sample.

    Raises:
        ConfigError: a vocabulary has that name already, or no operation can have it.

    Example:
        >>> from brimful import programs
        >>> @programs.operation
        ... def twice_as_high(grid: "Grid") -> "Grid":
        ...     return grid + grid
    """

    def register(function: Function) -> Function:
        check_type(function, FunctionType, "put @programs.operation above a function")
        new = replace(declared(function, name), batched=batched)
        if not may_name(new.name):
            raise ConfigError(
                f"an operation named {new.name!r}; give name= a Python identifier without a leading underscore that is "
                "no keyword, no input (I, S, C) and no name of a step (t1)"
            )
        for vocabulary in (ARC, BATT):
            if new.name in vocabulary or new.name in vocabulary.constants:
                raise ConfigError(f"an operation named {new.name!r}, as one of {vocabulary.name}; give name= another")
        _REGISTERED[new.name] = new
        return function

    return register if function is None else register(function)


def registered() -> dict[str, Operation]:
    """The operations that users added."""
    return dict(_REGISTERED)


def install(operations: Mapping[str, Operation]) -> None:
    """Adds operations that were registered in another process."""
    _REGISTERED.update({name: replace(operation) for name, operation in operations.items()})  # made anew: see Operation


def extended(vocabulary: Vocabulary) -> Vocabulary:
    """A vocabulary with the registered operations."""
    if not _REGISTERED:
        return vocabulary
    return replace(vocabulary, operations={**vocabulary.operations, **_REGISTERED})
