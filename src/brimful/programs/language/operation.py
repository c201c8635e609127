"""An operation: a plain function with declared types, and the vocabularies that hold operations by name.

>>> from brimful.programs import operation
>>> @operation
... def double_height(grid: Grid) -> Grid:
...     return grid + grid
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from ...core.base.errors import ConfigError
from .types import Type, safe_default

_BY_NAME = {kind.value: kind for kind in Type}
_RESULTS: WeakKeyDictionary[Callable[..., Any], Type] = WeakKeyDictionary()  # what functions of operations return


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operation.

    Attributes:
        name: as programs call it.
        function: its meaning for one sample; it may raise.
        arguments: the types of its arguments.
        result: the type of its value.
        value: what a program gets that names the operation as a value; for a vocabulary of safe operations, a function
            that never raises.
        batched: its form over all samples at once, where it has one.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Type, ...]
    result: Type
    value: Callable[..., Any]
    batched: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        _RESULTS[self.function] = _RESULTS[self.value] = self.result

    @property
    def safe(self) -> bool:
        """Whether it yields its default for whatever it raises, also where a program lists exceptions."""
        return self.value is not self.function

    @property
    def default(self) -> Any:
        """What it yields for a sample on which it fails."""
        return safe_default(self.result)


def declared(function: Callable[..., Any], name: str | None = None) -> Operation:
    """A function as an operation, by its annotations; what has none is `Any`."""
    called: str = name or getattr(function, "__name__", "")
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
        raise ConfigError(f"operation {called!r} takes *args or keywords; give it a fixed number of arguments")
    annotations = function.__annotations__
    arguments = tuple(_type(annotations.get(p.name, "Any"), called) for p in parameters)
    return Operation(called, function, arguments, _type(annotations.get("return", "Any"), called), function)


def _type(annotation: Any, name: str) -> Type:
    """The type that an annotation names."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    text = text.strip("'\"")  # a name in quotes, where annotations are not evaluated
    if text not in _BY_NAME:
        known = ", ".join(_BY_NAME)
        raise ConfigError(f"operation {name!r} is annotated {text!r}; the types of programs are {known}")
    return _BY_NAME[text]


@dataclass(frozen=True, slots=True)
class Vocabulary(Mapping[str, Operation]):
    """Operations and constants by name.

    Attributes:
        name: how errors and results call it.
        operations, constants: by name.
        safe: operations never raise, also inside of a function value: what fails yields its default right there.
    """

    name: str
    operations: Mapping[str, Operation]
    constants: Mapping[str, Any]
    safe: bool = False

    def __getitem__(self, name: str) -> Operation:
        return self.operations[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.operations)

    def __len__(self) -> int:
        return len(self.operations)


def default_of(function: Any) -> Any:
    """The safe default of a call of a function value: its own for an operation, () for a closure."""
    return safe_default(_RESULTS.get(function, Type.ANY)) if callable(function) else ()


def collect(modules: Iterable[ModuleType]) -> dict[str, Operation]:
    """The public functions that modules define, as operations."""
    return {
        name: declared(function)
        for module in modules
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
    }
