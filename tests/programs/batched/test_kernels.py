"""Which operations have a batched form: those that mean what it does, whatever they are called."""

import functools

import pytest

from brimful.programs.batched.evaluation.executor import Batched
from brimful.programs.batched.kernels import KERNELS, kernel_of, meaning
from brimful.programs.execution.arguments import Arguments
from brimful.programs.execution.sequential import Sequential
from brimful.programs.language.operation import declared
from brimful.programs.loading import loads
from brimful.programs.vocabulary.arc import ARC
from brimful.programs.vocabulary.batt import BATT
from tests.programs.batched.helpers import compare

GRIDS = [((1, 2), (3, 4)), ((5,),)]


def fill(grid, value, patch):
    return (grid, value)


def test_an_operation_of_a_known_name_and_another_function_is_its_own():
    given = [GRIDS, [7, 8], [frozenset({(0, 0)})] * 2]
    for other in (declared(fill), declared(functools.wraps(ARC["fill"].function)(fill))):
        assert other.name == "fill" and meaning(other) is None
        assert compare(other, *given) == 2
    assert compare(declared(ARC["fill"].function, "colored"), *given) == 0


def test_a_closure_is_made_by_what_makes_closures():
    def compose(outer, inner):
        return lambda x: inner(outer(x))

    other = declared(compose)
    assert meaning(other) is None and meaning(BATT["compose"]) == "compose"


@pytest.mark.parametrize("name", ["shift", "normalize", "toindices", "recolor_o", "paint", "color"])
def test_operations_of_a_batt_with_another_layout_of_cells(name):
    looks_like_cells = [frozenset({(1, (2, 3))}), frozenset({(4, (0, 0)), (1, (2, 3))})]
    cells = [frozenset({(2, 3, 1)}), frozenset({(0, 0, 4), (2, 3, 1)})]
    for patch in (looks_like_cells, cells):
        given = {"shift": [patch, [(1, 1)] * 2], "paint": [GRIDS, patch], "recolor_o": [[5, 6], patch]}
        compare(BATT[name], *given.get(name, [patch]))


def test_what_a_batt_shares_with_arc_has_its_kernels():
    for name, of in {"size_f": "size", "merge_t": "merge", "rot90": "rot90", "c_branch": "branch"}.items():
        assert kernel_of(BATT[name]) is KERNELS[of]
    assert kernel_of(BATT["fill"]) is not KERNELS["fill"]
    assert compare(BATT["rot90"], GRIDS) == 0


def test_a_batt_agrees():
    steps = [
        "t1 = asobject(I)",
        "t2 = shift(t1, UNITY)",
        "t3 = paint(I, t2)",
        "t4 = astuple(ONE, UNITY)",
        "t5 = initset(t4)",
        "t6 = shift(t5, UNITY)",
        "t7 = recolor_o(TWO, t2)",
        "t8 = rot90(t3)",
        "t9 = rbind(shift, UNITY)",
        "t10 = initset(t5)",
        "t11 = apply(t9, t10)",
    ]
    lines = [f"    {step}" for step in steps]
    lines += [f"    o.append(({n}, 'None', 'x', t{n + 1}))" for n, step in enumerate(steps) if "rbind" not in step]
    text = "\n".join(["from pile import *", "def batt(task_id, S, I, C, log_path):", "    s = []", "    o = []"])
    graph = loads("\n".join([text, *lines, "    return o, s"])).merge()
    known = {meaning(node.operation) for node in graph.nodes if node.operation is not None}
    assert {"batt.shift", "batt.paint", "rot90", "rbind"} <= known
    samples = [Arguments(str(number), ((grid, grid),), grid, grid) for number, grid in enumerate(GRIDS)]
    batch, one = Batched(graph).evaluate(samples), Sequential(graph)
    for at, sample in enumerate(samples):
        expected = one.evaluate(sample)
        for node, step in batch.steps.items():
            if not callable(expected.values[node]):
                assert step.decode([at]) == [expected.values[node]], graph.nodes[node].label
