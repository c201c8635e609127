"""A program as a list of nodes, each computed once from those before it (static single assignment)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from .operation import Operation, Vocabulary
from .types import Type


class Kind(Enum):
    """What a node is."""

    INPUT = "input"
    """What a sample brings: its input grid I, the reference grid C, the demonstrations S, or the task_id."""
    CONSTANT = "constant"
    FUNCTION = "function"
    """An operation as a value, to be handed to another or called later."""
    OPERATION = "operation"
    """A call of an operation."""
    CALL = "call"
    """A call of a function value, the first of its arguments."""
    ITEM = "item"
    """One part of a tuple that is unpacked; its value is (index, number of parts)."""


_EVERYTHING = frozenset({"Exception"})

INPUTS = {"I": Type.GRID, "C": Type.GRID, "S": Type.SAMPLES, "task_id": Type.ANY}
"""The inputs of a program by name."""


@dataclass(frozen=True, slots=True)
class Node:
    """One step of a program.

    Attributes:
        kind: what it is.
        name: of the input or the operation.
        args: the nodes it takes.
        operation: of an OPERATION or FUNCTION.
        value: of a constant; (index, number of parts) of an item.
        type: of its value, as declared.
        catches: the names of the exceptions for which the source asks for a default; None where it does not say.
        fallback: the node of the function whose default the source asks for; None for the operation's own.
    """

    kind: Kind
    name: str = ""
    args: tuple[int, ...] = ()
    operation: Operation | None = None
    value: Any = None
    type: Type = Type.ANY
    catches: frozenset[str] | None = None
    fallback: int | None = None

    @property
    def computed(self) -> bool:
        """Whether it is work, and may fail."""
        return self.kind in (Kind.OPERATION, Kind.CALL, Kind.ITEM)

    @property
    def caught(self) -> frozenset[str]:
        """The names of the exceptions for which it yields its default: all, unless the source lists some and the
        operation itself lets any through."""
        if self.catches is None or (self.kind is Kind.OPERATION and self.operation is not None and self.operation.safe):
            return _EVERYTHING
        return self.catches

    @property
    def parents(self) -> tuple[int, ...]:
        """All nodes that must be known before this one."""
        return self.args if self.fallback is None else (*self.args, self.fallback)

    @property
    def label(self) -> str:
        """How messages and tables call it."""
        return {Kind.CALL: "a function value", Kind.ITEM: "unpacking"}.get(self.kind, self.name)

    def renumbered(self, new: dict[int, int] | list[int]) -> Node:
        """The same step over other numbers of its parents."""
        fallback = None if self.fallback is None else new[self.fallback]
        args = tuple([new[arg] for arg in self.args])
        return self if (args, fallback) == (self.args, self.fallback) else replace(self, args=args, fallback=fallback)

    def key(self) -> tuple[Any, ...]:
        """Equal for steps that compute the same. True and 1 are not: they print differently."""
        return self.kind, self.name, self.args, id(self.operation), repr(self.value), self.catches, self.fallback


class Form(Enum):
    """How a program was written."""

    SOLVER = "solver"
    """`def solve_x(I): ...; return O`."""
    BATT = "batt"
    """`def batt(task_id, S, I, C, log_path): ...; return o, s`."""


Record = tuple[int, ...]
"""The nodes of one tuple that a batt appends to its outputs or scores; of a solver, its one output."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program.

    Attributes:
        name: of its function.
        form: how it was written.
        file: where.
        nodes, lines: its steps, and the line of each in the file.
        outputs, scores: what it returns.
        vocabulary: what its names mean.
    """

    name: str
    form: Form
    file: str
    nodes: tuple[Node, ...] = field(repr=False)
    lines: tuple[int, ...] = field(repr=False)
    outputs: tuple[Record, ...] = field(repr=False)
    scores: tuple[Record, ...] = field(repr=False)
    vocabulary: Vocabulary = field(repr=False)

    @property
    def operations(self) -> int:
        """How many steps of it are work."""
        return sum(node.computed for node in self.nodes)

    @property
    def candidates(self) -> tuple[int, ...]:
        """The nodes of its candidate outputs: the last field of each record."""
        return tuple(record[-1] for record in self.outputs)

    def live(self) -> list[int]:
        """The nodes that its results depend on, in the order of the source."""
        return ancestors(self.nodes, (node for record in (*self.outputs, *self.scores) for node in record))


def ancestors(nodes: tuple[Node, ...] | list[Node], roots: Iterable[int]) -> list[int]:
    """The nodes that some depend on, and these, in order."""
    needed = set(roots)
    waiting = list(needed)
    while waiting:
        for parent in nodes[waiting.pop()].parents:
            if parent not in needed:
                needed.add(parent)
                waiting.append(parent)
    return sorted(needed)
