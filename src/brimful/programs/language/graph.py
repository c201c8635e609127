"""Any number of programs as one graph: what they share is computed once.

Nodes that compute the same are one node (hash-consing). Constants are computed once for all samples, what depends on
the demonstrations alone once per task, and what no result depends on never.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from ...core.base.formatting import format_table
from .program import Form, Kind, Node, Program, Record


class Level(IntEnum):
    """How often a node is computed."""

    CONSTANT = 0
    """Once."""
    TASK = 1
    """Once per task: it depends on the demonstrations, and on nothing else of the sample."""
    SAMPLE = 2
    """Once per sample."""


_LEVELS = {"S": Level.TASK, "task_id": Level.TASK, "I": Level.SAMPLE, "C": Level.SAMPLE}


@dataclass(frozen=True, slots=True)
class GraphProgram:
    """One program of a graph.

    Attributes:
        name, form: its own.
        outputs, scores: the nodes of what it returns.
        steps: the nodes of the graph that it needs, in the order of its source, and the index of each among the nodes
            of the program as written.
    """

    name: str
    form: Form
    outputs: tuple[Record, ...] = field(repr=False)
    scores: tuple[Record, ...] = field(repr=False)
    steps: dict[int, int] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Graph:
    """Programs merged into one.

    Attributes:
        nodes: in an order in which they can be computed.
        levels: how often each of them is computed.
        programs: what to take from them.
        operations: in the programs as written.
        dead: of these, the ones that no result depends on.
    """

    nodes: tuple[Node, ...] = field(repr=False)
    levels: tuple[Level, ...] = field(repr=False)
    programs: tuple[GraphProgram, ...]
    operations: int
    dead: int

    @classmethod
    def of(cls, programs: Sequence[Program], share: bool = True) -> Graph:
        """Merges programs.

        Args:
            share: one node for the same operation of different programs; without it, each program keeps its own.
        """
        builder = _Builder()
        merged = []
        for program in programs:
            if not share:
                builder.known.clear()
            merged.append(builder.add(program))
        operations = sum(program.operations for program in programs)
        return cls(tuple(builder.nodes), tuple(builder.levels), tuple(merged), operations, builder.dead)

    @property
    def returned(self) -> set[int]:
        """The nodes that programs return."""
        return {
            node
            for program in self.programs
            for of in (program.outputs, program.scores)
            for record in of
            for node in record
        }

    @property
    def merged(self) -> int:
        """How many operations are left."""
        return sum(node.computed for node in self.nodes)

    def at(self, level: Level) -> int:
        """How many operations are computed so often."""
        return sum(node.computed and of is level for node, of in zip(self.nodes, self.levels, strict=True))

    @property
    def depth(self) -> int:
        """The longest chain of operations."""
        depths = list[int]()
        for node in self.nodes:
            depths.append(max((depths[parent] for parent in node.parents), default=0) + node.computed)
        return max(depths, default=0)

    def explain(self) -> str:
        """What merging saved, as a table."""
        shared = self.operations - self.dead - self.merged
        rows = [
            ("programs", len(self.programs), ""),
            ("operations as written", self.operations, ""),
            ("dead", self.dead, "no result depends on them: never computed"),
            ("shared", shared, "the same as another: computed once"),
            ("left", self.merged, f"the longest chain has {self.depth}"),
            ("  of constants", self.at(Level.CONSTANT), "once"),
            ("  of demonstrations", self.at(Level.TASK), "once per task"),
            ("  of samples", self.at(Level.SAMPLE), "once per sample"),
        ]
        return format_table([(name, f"{count:,}", text) for name, count, text in rows])


class _Builder:
    """Nodes of a graph in the making."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.levels: list[Level] = []
        self.known: dict[tuple[object, ...], int] = {}
        self.dead = 0

    def add(self, program: Program) -> GraphProgram:
        """Adds the live nodes of a program."""
        new = dict[int, int]()
        live = program.live()
        for index in live:
            node = program.nodes[index].renumbered(new)
            new[index] = self._intern(node)
        self.dead += program.operations - sum(program.nodes[index].computed for index in live)

        def records(of: tuple[Record, ...]) -> tuple[Record, ...]:
            return tuple(tuple(new[index] for index in record) for record in of)

        steps = dict[int, int]()
        for index in live:
            steps.setdefault(new[index], index)
        return GraphProgram(program.name, program.form, records(program.outputs), records(program.scores), steps)

    def _intern(self, node: Node) -> int:
        """The number of a node, which is that of an equal one where there is one."""
        key = node.key()
        if key not in self.known:
            self.known[key] = len(self.nodes)
            self.nodes.append(node)
            own = _LEVELS[node.name] if node.kind is Kind.INPUT else Level.CONSTANT
            self.levels.append(max((self.levels[parent] for parent in node.parents), default=own))
        return self.known[key]
