"""Equal operations in one call: steps laid end to end, and apart again."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful import programs
from brimful.programs.batched.convert import encode
from brimful.programs.batched.evaluation import side_by_side
from brimful.programs.batched.evaluation.executor import Batched
from brimful.programs.batched.evaluation.side_by_side import apart, in_parts, shape_of, united
from brimful.programs.batched.flags import Step
from brimful.programs.batched.functions import FunctionValue, named_function
from brimful.programs.batched.machine import Machine
from brimful.programs.execution.arguments import Arguments
from brimful.programs.execution.sequential import Sequential
from brimful.programs.executors.comparison import first_difference
from brimful.programs.language.graph import Level
from brimful.programs.vocabulary.arc import ARC

from ..helpers import DEVICE, INDICES, INTEGERS, LOCATIONS, OBJECTS, ODD

GRIDS = st.tuples(st.integers(1, 4), st.integers(1, 4)).map(lambda size: ((size[0],) * size[1],) * size[0])
ROWS = st.one_of(INTEGERS, LOCATIONS, INDICES, OBJECTS, ODD, GRIDS)


def step(values: list[Any], failed: list[int] | None = None) -> Step:
    column, boxed = encode(values, DEVICE)
    return Step(column, None if failed is None else torch.tensor(failed, dtype=torch.int8), boxed)


def same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right


@given(st.lists(ROWS, min_size=1, max_size=4), st.integers(1, 4), st.data())
def test_what_is_united_comes_apart_again(kinds: list[Any], count: int, data: st.DataObject):
    columns = [[data.draw(st.sampled_from(kinds)) for _ in range(5)] for _ in range(count)]
    failures = [data.draw(st.one_of(st.none(), st.lists(st.integers(0, 3), min_size=5, max_size=5))) for _ in columns]
    steps = [step(values, failed) for values, failed in zip(columns, failures, strict=True)]
    if len(set(map(shape_of, steps))) > 1 or shape_of(steps[0]) is None:
        steps, columns, failures = steps[:1] * 3, columns[:1] * 3, failures[:1] * 3
    if shape_of(steps[0]) is None:
        return
    together = united(steps)
    assert isinstance(together, Step)
    assert together.rows == 5 * len(steps)
    for own, values, failed in zip(apart(together, len(steps)), columns, failures, strict=True):
        good = [row for row in range(5) if not failed or not failed[row]]
        assert all(map(same, own.decode(good), [values[row] for row in good]))
        assert (own.failed is None) == (not failed or not any(failed))
        if own.failed is not None:
            assert own.failed.tolist() == failed


def test_no_rows():
    for own in apart(united([step([]), step([], [])]), 2):  # pyright: ignore[reportArgumentType]
        assert own.rows == 0


def test_values_of_several_forms_are_not_united():
    assert shape_of(step([1, 2])) != shape_of(step([(1, 2), (3, 4)]))
    assert shape_of(step([1, (1, 2)])) != shape_of(step([1, 2]))
    assert shape_of(step([None, "text"])) is None
    assert shape_of(FunctionValue(ARC["rbind"], (named_function(ARC["add"]), step([None])), 1)) is None


def test_functions_are_united_with_what_they_close_over():
    bound = [FunctionValue(ARC["rbind"], (named_function(ARC["add"]), step(values)), 1) for values in ([1, 2], [3, 4])]
    assert shape_of(bound[0]) == shape_of(bound[1])
    assert shape_of(bound[0]) != shape_of(named_function(ARC["add"]))
    together = united(bound)
    assert isinstance(together, FunctionValue)
    assert [function(10) for function in together.pythons(range(4))] == [11, 12, 13, 14]
    plain = named_function(ARC["size"])
    assert united([plain, plain]) is plain


def test_parts_are_of_one_form_and_bounded(monkeypatch: pytest.MonkeyPatch):
    numbers, pairs = step([1, 2, 3]), step([(1, 2)] * 3)

    def parts(*values: Step) -> list[list[int]]:
        arguments = {index: [(value, Level.SAMPLE)] for index, value in enumerate(values)}
        return in_parts(arguments, 3, lambda _: 3, DEVICE)

    assert parts(numbers, pairs, numbers, pairs, numbers) == [[0, 2, 4], [1, 3]]
    monkeypatch.setattr(side_by_side, "_NUMBERS", (6, 6))
    assert parts(numbers, numbers, numbers, pairs, pairs) == [[0, 1], [2], [3], [4]]
    assert in_parts({5: [(named_function(ARC["size"]), Level.CONSTANT)]}, 3, lambda _: 1, DEVICE) == [[5]]


def test_equal_operations_run_in_one_call(monkeypatch: pytest.MonkeyPatch):
    lines = [f"    g{color} = fill(I, {color}, p{color})" for color in range(8)]
    patches = [f"    p{color} = ofcolor(I, {color})" for color in range(8)]
    text = "\n".join(["def solve_x(I):", *patches, *lines, "    a = astuple(g0, g1)", *_chain(8), "    return c7"])
    graph = programs.loads(text).merge()
    grids = [((0, 1, 2), (3, 4, 5)), ((7, 7), (0, 6)), ((1,),)]
    samples = [Arguments("a", (), grid, ()) for grid in grids]
    plain, calls = Machine.operation, list[str]()

    def counted(self: Machine, operation: Any, args: Any) -> Any:
        calls.append(operation.name)
        return plain(self, operation, args)

    monkeypatch.setattr(Machine, "operation", counted)
    executor = Batched(graph)
    found = executor.evaluate(samples)
    assert calls.count("ofcolor") == calls.count("fill") == 1
    last = graph.programs[0].outputs[0][-1]
    sequential = Sequential(graph)
    assert found.steps[last].decode(range(3)) == [sequential.evaluate(sample).values[last] for sample in samples]


GUARDED = [
    "    try:",
    "        {name} = divide({of}, ZERO)",
    "    except Exception:",
    "        {name} = _get_safe_default({default})",
]
PLAIN = ["    {name} = divide({of}, ZERO)"]


@pytest.mark.parametrize("first", [PLAIN, GUARDED], ids=["plain", "guarded"])
@pytest.mark.parametrize("second", [PLAIN, GUARDED], ids=["plain", "guarded"])
@pytest.mark.parametrize("defaults", [("height", "divide"), ("divide", "height")])
def test_each_step_of_a_call_yields_its_own_default(first: list[str], second: list[str], defaults: tuple[str, str]):
    steps = [
        line.format(name=name, of=of, default=default)
        for lines, name, of, default in ((first, "a", "w", defaults[0]), (second, "b", "h", defaults[1]))
        for line in lines
    ]
    head = ["def solve_x(I):", "    w = width(I)", "    h = height(I)"]
    text = "\n".join([*head, *steps, "    c = astuple(a, b)", "    return c"])
    samples = [Arguments("a", (), grid, ()) for grid in (((0, 1),), ((1,), (2,)))]
    assert first_difference(programs.loads(text).merge(), "default", samples, DEVICE) is None


def test_a_large_batch_is_computed_in_the_order_of_the_source():
    graph = programs.loads(programs.generate(60, 1)).merge()
    grid = ((1,) * 20,) * 20
    executor, sample = Batched(graph), Arguments("a", (), grid, ())
    small, large = executor.schedule([sample]), executor.schedule([sample] * 5_000)
    assert len(small) < len(large) == len(graph.nodes)
    assert [call for call, _ in large] == [(index,) for index in range(len(graph.nodes))]


def _chain(count: int) -> list[str]:
    first = "    c0 = vconcat(g0, g0)"
    return [first, *(f"    c{at} = vconcat(c{at - 1}, g{at})" for at in range(1, count))]
