"""The order in which a batch computes the nodes of a graph, and which of them in one call."""

from collections.abc import Callable

import pytest

from brimful import programs
from brimful.programs.batched.evaluation.schedule import Schedule, calls_of, in_source_order, last_uses, side_by_side
from brimful.programs.language.graph import Graph


def graph(operations: int, seed: int) -> Graph:
    return programs.loads(programs.generate(operations, seed)).merge()


@pytest.mark.parametrize("of", [in_source_order, side_by_side])
@pytest.mark.parametrize(("operations", "seed"), [(3, 0), (60, 1), (400, 2)])
def test_every_node_once_and_after_what_it_needs(operations: int, seed: int, of: Callable[[Graph], Schedule]):
    merged = graph(operations, seed)
    calls = [call for call, _ in of(merged)]
    done = set[int]()
    for call in calls:
        for index in call:
            assert done.issuperset(merged.nodes[index].parents)
        done.update(call)
    assert sorted(index for call in calls for index in call) == list(range(len(merged.nodes)))


def test_a_call_has_equal_operations_of_one_level():
    merged = graph(400, 2)
    calls = calls_of(merged)
    for call in calls:
        nodes = [merged.nodes[index] for index in call]
        assert len({(node.name, len(node.args), merged.levels[at]) for node, at in zip(nodes, call, strict=True)}) == 1
    operations = sum(any(merged.nodes[index].computed for index in call) for call in calls)
    assert operations < merged.merged / 2


def test_an_operation_waits_for_others_of_its_kind():
    text = "\n".join(
        [
            "def solve_x(I):",
            "    a = vmirror(I)",
            "    b = rot90(I)",
            "    c = vmirror(b)",
            "    d = hconcat(a, c)",
            "    return d",
        ]
    )
    merged = programs.loads(text).merge()
    names = [tuple(merged.nodes[index].name for index in call) for call in calls_of(merged)]
    assert names == [("I",), ("rot90",), ("vmirror", "vmirror"), ("hconcat",)]


def test_a_chain_is_computed_in_its_order():
    steps = "\n".join(f"    x{number} = upscale(x{number - 1}, ONE)" for number in range(1, 20))
    merged = programs.loads(f"def solve_x(I):\n    x0 = rot90(I)\n{steps}\n    return x19\n").merge()
    order = [index for call in calls_of(merged) for index in call if merged.nodes[index].computed]
    assert order == sorted(order)


def test_nodes_are_freed_after_their_last_use_and_once():
    merged = graph(200, 3)
    calls = calls_of(merged)
    freed = last_uses(merged, calls)
    assert sorted(index for gone in freed for index in gone) == list(range(len(merged.nodes)))
    gone_before = set[int]()
    for call, gone in zip(calls, freed, strict=True):
        for index in call:
            assert gone_before.isdisjoint(merged.nodes[index].parents)
        gone_before.update(gone)
