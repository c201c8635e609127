"""The bytes that a batch takes in the batched executor, before anything is measured: the columns that live together.

A column is freed after its last use, so the peak is that of the step at which most bytes live. What is in a column
depends on the samples: a grid is taken to be as large as their mean, and a list to have a few times that.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.memory.cost import Cost
from ..batched.evaluation.schedule import calls_of, last_uses
from ..data.tasks import Sample
from ..language.graph import Graph, Level
from ..language.program import Kind, Node
from ..language.types import Type

_NUMBER = 8  # bytes: columns are of 64-bit numbers
_SMALL = {Type.BOOLEAN, Type.INTEGER, Type.IJ, Type.NUMERICAL, Type.CELL}
_NESTED = {Type.OBJECTS, Type.INDICES_SET, Type.TUPLE_TUPLE, Type.CONTAINER_CONTAINER, Type.TUPLE, Type.CONTAINER}
_TEMPORARY = 6  # columns that a kernel makes on its way, of the size of its result
_FIXED = 64e6  # bytes of the compiled code and of a small batch


def batched_cost(graph: Graph, samples: Sequence[Sample]) -> Cost:
    """What a batch takes by the number of its samples."""
    sizes = [len(sample.I) * len(sample.I[0]) for sample in samples if sample.I]
    cells = sum(sizes) / max(1, len(sizes))
    calls = calls_of(graph)
    returned = {
        node
        for program in graph.programs
        for of in (program.outputs, program.scores)
        for record in of
        for node in record
    }
    peak = live = 0.0
    alive: dict[int, float] = {}
    for call, freed in zip(calls, last_uses(graph, calls), strict=True):
        for index in call:
            size = column_bytes(graph.nodes[index], cells) if graph.levels[index] is Level.SAMPLE else 0.0
            alive[index] = size
            live += size
        peak = max(peak, live + _TEMPORARY * max(alive[index] for index in call))
        for gone in freed:
            if gone not in returned:
                live -= alive.pop(gone)
    flags = 2.0 * len(graph.nodes)
    return Cost(_FIXED, peak + flags)


def column_bytes(node: Node, cells: float) -> float:
    """Bytes per sample of a node's column."""
    if node.kind in (Kind.FUNCTION, Kind.CONSTANT) or node.type is Type.CALLABLE:
        return 0.0
    if node.type in _SMALL:
        return 2.0 * _NUMBER
    return _NUMBER * (2 * cells if node.type in _NESTED else cells) + 4 * _NUMBER
