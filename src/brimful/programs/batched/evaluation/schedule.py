"""In which order a batch computes the nodes of a graph, and which of them in one call.

Equal operations that do not need each other can run side by side, over the rows of all of them: a batt of 1,700
operations calls `fill` for 140 of them, and most of what a small batch takes is what every call takes. So an operation
waits for others of its kind, as long as anything else can be done. More columns live together then, so a large batch,
which gains nothing by it, is computed in the order of the source.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Hashable

from ...language.graph import Graph
from ...language.program import Kind

Schedule = list[tuple[tuple[int, ...], list[int]]]
"""The nodes of each call, and those that no later call needs."""


def in_source_order(graph: Graph) -> Schedule:
    """One node after the other."""
    return _with_last_uses(graph, [(index,) for index in range(len(graph.nodes))])


def side_by_side(graph: Graph) -> Schedule:
    """Equal operations in one call."""
    return _with_last_uses(graph, calls_of(graph))


def _with_last_uses(graph: Graph, calls: list[tuple[int, ...]]) -> Schedule:
    return list(zip(calls, last_uses(graph, calls), strict=True))


def calls_of(graph: Graph) -> list[tuple[int, ...]]:
    """All nodes of a graph, in calls: equal operations that are ready at the same time are in one.

    A call comes after all that its nodes need. The next one is that of which most are ready, of those that still come;
    of equal shares that which is first in the source, so that what a node needs is not kept for long.
    """
    nodes = graph.nodes
    kinds = [_kind(graph, index) for index in range(len(nodes))]
    missing = [len(set(node.parents)) for node in nodes]
    users = defaultdict[int, list[int]](list)
    for index, node in enumerate(nodes):
        for parent in set(node.parents):
            users[parent].append(index)
    coming, ready = Counter(kinds), defaultdict[Hashable, list[int]](list)
    complete = list[tuple[int, int]]()  # of the kinds of which all that still come are ready, the first node, and one

    def add(index: int) -> None:
        own = ready[kinds[index]]
        own.append(index)
        if len(own) == coming[kinds[index]]:
            heapq.heappush(complete, (min(own), index))

    for index, count in enumerate(missing):
        if not count:
            add(index)
    calls = list[tuple[int, ...]]()
    while ready:
        if complete:
            kind = kinds[heapq.heappop(complete)[1]]
        else:
            kind = min(ready, key=lambda kind: (-len(ready[kind]) / coming[kind], min(ready[kind])))
        call = sorted(ready.pop(kind))
        coming[kind] -= len(call)
        calls.append(tuple(call))
        for index in call:
            for user in users[index]:
                missing[user] -= 1
                if not missing[user]:
                    add(user)
    return calls


def last_uses(graph: Graph, calls: list[tuple[int, ...]]) -> list[list[int]]:
    """For every call, the nodes that no later one needs."""
    at = {index: number for number, call in enumerate(calls) for index in call}
    last = dict(at)
    for index, node in enumerate(graph.nodes):
        for parent in node.parents:
            last[parent] = max(last[parent], at[index])
    freed: list[list[int]] = [[] for _ in calls]
    for index in range(len(graph.nodes)):
        freed[last[index]].append(index)
    return freed


def _kind(graph: Graph, index: int) -> Hashable:
    """Equal for nodes that one call can compute."""
    node = graph.nodes[index]
    if node.kind is not Kind.OPERATION:
        return index
    return id(node.operation), len(node.args), graph.levels[index]
