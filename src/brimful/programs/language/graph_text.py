"""A graph as plain values that a module can hold as text, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .graph import Graph
from .operation import Vocabulary
from .program import Form, Kind, Node, Program


def graph_values(graph: Graph) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The nodes, (kind, name, arguments, value, exceptions that are caught or None, node of the default or None); and
    the programs, (name, form, outputs, scores)."""
    nodes = [
        (
            node.kind.value,
            node.name,
            node.args,
            node.value,
            None if node.catches is None else tuple(sorted(node.catches)),
            node.fallback,
        )
        for node in graph.nodes
    ]
    programs = [(of.name, of.form.value, of.outputs, of.scores) for of in graph.programs]
    return nodes, programs


def graph_of(vocabulary: Vocabulary, nodes: Sequence[Any], programs: Sequence[Any]) -> Graph:
    """The graph of such values, with the operations of a vocabulary."""
    made = tuple(_node(vocabulary, *values) for values in nodes)
    lines = (0,) * len(made)
    return Graph.of(
        [
            Program(name, Form(form), "", made, lines, tuple(outputs), tuple(scores), vocabulary)
            for name, form, outputs, scores in programs
        ]
    )


def _node(
    vocabulary: Vocabulary,
    kind: str,
    name: str,
    args: tuple[int, ...],
    value: Any,
    catches: tuple[str, ...] | None,
    fallback: int | None,
) -> Node:
    of = Kind(kind)
    operation = vocabulary[name] if of in (Kind.OPERATION, Kind.FUNCTION) else None
    caught = None if catches is None else frozenset(catches)
    return Node(of, name, tuple(args), operation, value, catches=caught, fallback=fallback)
