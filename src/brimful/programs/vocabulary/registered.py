"""Operations that users add: a decorator makes a plain function part of every vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, overload

from ...core.base.errors import ConfigError
from ..language.operation import Operation, Vocabulary, declared

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
        batched: the same over all samples at once, where there is such a form.

    Example:
        >>> from brimful import programs
        >>> @programs.operation
        ... def twice_as_high(grid: "Grid") -> "Grid":
        ...     return grid + grid
    """

    def register(function: Function) -> Function:
        new = replace(declared(function, name), batched=batched)
        if not new.name.isidentifier():
            raise ConfigError(f"an operation named {new.name!r}; give name= a Python identifier")
        _REGISTERED[new.name] = new
        return function

    return register if function is None else register(function)


def registered() -> dict[str, Operation]:
    """The operations that users added."""
    return dict(_REGISTERED)


def install(operations: Mapping[str, Operation]) -> None:
    """Adds operations that were registered in another process."""
    _REGISTERED.update(operations)


def extended(vocabulary: Vocabulary) -> Vocabulary:
    """A vocabulary with the registered operations.

    Raises:
        ConfigError: one of them has a name that the vocabulary uses already.
    """
    for name in _REGISTERED:
        if name in vocabulary.operations or name in vocabulary.constants:
            raise ConfigError(f"a registered operation is named {name!r}, as one of {vocabulary.name}; rename it")
    if not _REGISTERED:
        return vocabulary
    return replace(vocabulary, operations={**vocabulary.operations, **_REGISTERED})
