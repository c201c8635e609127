"""How many bytes the columns of a batch take per sample, before any is made, by the order in which they are computed.

What is in a column depends on the samples: a grid is taken to be as large as their mean, and a list to have a few times
that.
"""

from __future__ import annotations

from ...language.graph import Graph, Level
from ...language.program import Kind, Node
from ...language.types import Type
from .schedule import Schedule
from .side_by_side import NUMBERS_PER_ROW

_NUMBER = 8  # bytes: columns are of 64-bit numbers
_SMALL = {Type.BOOLEAN, Type.INTEGER, Type.IJ, Type.NUMERICAL, Type.CELL}
_NESTED = {Type.OBJECTS, Type.INDICES_SET, Type.TUPLE_TUPLE, Type.CONTAINER_CONTAINER, Type.TUPLE, Type.CONTAINER}
_TEMPORARY = 6  # columns that a kernel makes on its way, of the size of its result


def peak_bytes(graph: Graph, schedule: Schedule, cells: float) -> float:
    """Bytes per sample at the step at which most live, what is returned included: a column is freed after its last use.
    Nodes of one call share their memory until the last of them is freed, and are computed at once.

    Args:
        cells: of a mean grid.
    """
    returned = graph.returned
    peak = live = 0.0
    shared: dict[int, tuple[float, set[int]]] = {}
    for call, freed in schedule:
        sizes = [column_bytes(graph.nodes[index], cells) for index in call if graph.levels[index] is Level.SAMPLE]
        together = sum(sizes)
        shared.update(dict.fromkeys(call, (together, set(call))))
        live += together
        at_once = max([min(together, _NUMBER * NUMBERS_PER_ROW), *sizes])
        peak = max(peak, live + _TEMPORARY * at_once)
        for gone in freed:
            if gone not in returned:
                size, others = shared.pop(gone)
                others.discard(gone)
                live -= 0.0 if others else size
    return peak


def column_bytes(node: Node, cells: float) -> float:
    """Bytes per sample of a node's column."""
    if node.kind in (Kind.FUNCTION, Kind.CONSTANT) or node.type is Type.CALLABLE:
        return 0.0
    if node.type in _SMALL:
        return 2.0 * _NUMBER
    return _NUMBER * (2 * cells if node.type in _NESTED else cells) + 4 * _NUMBER
