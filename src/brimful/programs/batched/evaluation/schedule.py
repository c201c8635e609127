"""In which order a batch computes the nodes of a graph, and which of them in one call.

Equal operations that do not need each other can run side by side, over the rows of all of them: a batt of 1,700
operations calls `fill` for 140 of them, and most of what a small batch takes is what every call takes. So an operation
waits for others of its kind, as long as anything else can be done.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable

from ...language.graph import Graph
from ...language.program import Kind


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
    coming = Counter(kinds)
    ready = defaultdict[Hashable, list[int]](list)
    for index, count in enumerate(missing):
        if not count:
            ready[kinds[index]].append(index)

    def waiting(kind: Hashable) -> tuple[float, int]:
        return -len(ready[kind]) / coming[kind], min(ready[kind])

    calls = list[tuple[int, ...]]()
    order = {kind: waiting(kind) for kind in ready}
    while order:
        kind = min(order, key=order.__getitem__)
        call = sorted(ready.pop(kind))
        del order[kind]
        coming[kind] -= len(call)
        calls.append(tuple(call))
        changed = set[Hashable]()
        for index in call:
            for user in users[index]:
                missing[user] -= 1
                if not missing[user]:
                    ready[kinds[user]].append(user)
                    changed.add(kinds[user])
        order.update((kind, waiting(kind)) for kind in changed)
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
