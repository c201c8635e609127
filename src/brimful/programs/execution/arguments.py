"""What a program is given for one sample."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from .encoding import decode


class SampleArguments(Protocol):
    """What a program is given for one sample."""

    @property
    def task_id(self) -> str:
        """Of the task."""
        ...

    @property
    def S(self) -> tuple[Any, ...]:  # noqa: N802
        """Its demonstration pairs, ((input, output), ...)."""
        ...

    @property
    def I(self) -> tuple[Any, ...]:  # noqa: E743, N802
        """The input grid."""
        ...

    @property
    def C(self) -> tuple[Any, ...]:  # noqa: N802
        """The reference grid: the output that belongs to I where it is known, else ()."""
        ...


class Arguments(NamedTuple):
    """The arguments as Python has them."""

    task_id: str
    S: tuple[Any, ...]
    I: tuple[Any, ...]  # noqa: E741
    C: tuple[Any, ...]


class EncodedArguments:
    """Arguments whose grids are bytes: they are decoded when Python asks for them, which a batch never does.

    Attributes:
        grids: by the name of an argument its bytes.
    """

    __slots__ = ("S", "_decoded", "grids", "task_id")

    def __init__(self, task_id: str, S: tuple[Any, ...], I: bytes, C: bytes) -> None:  # noqa: E741
        self.task_id, self.S, self.grids = task_id, S, {"I": I, "C": C}
        self._decoded: dict[str, tuple[Any, ...]] = {}

    @property
    def I(self) -> tuple[Any, ...]:  # noqa: E743, N802
        return self._grid("I")

    @property
    def C(self) -> tuple[Any, ...]:  # noqa: N802
        return self._grid("C")

    def _grid(self, name: str) -> tuple[Any, ...]:
        if name not in self._decoded:
            self._decoded[name] = decode(self.grids[name])
        return self._decoded[name]
