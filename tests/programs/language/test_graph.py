"""Merging: what is shared, constant, of the task or dead is computed as often as need be, and nothing changes."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.programs.execution.arguments import Arguments
from brimful.programs.execution.encoding import encode
from brimful.programs.execution.sequential import Sequential
from brimful.programs.language.graph import Graph, Level
from brimful.programs.language.program import Kind

from ..helpers.words import CALLS, batt, programs, solver

SAMPLE = Arguments("task", (((1,), (2,)),), ((1, 2), (3, 4)), ())


def graph(*texts: str, share: bool = True) -> Graph:
    return Graph.of(programs("\n".join(texts)), share)


def outputs(of: Graph, arguments: Arguments = SAMPLE, on_error: str = "default") -> list[Any]:
    sequential = Sequential(of, on_error)
    evaluation = sequential.evaluate(arguments)
    return [evaluation.values[program.outputs[0][0]] for program in of.programs]


def test_what_two_programs_share_is_there_once():
    one = solver("x1 = rows(I)", "x2 = twice(x1)", "x2", name="a")
    two = solver("y = rows(I)", "z = twice(y)", "w = plus(z, ONE)", "w", name="b")
    merged, apart = graph(one, two), graph(one, two, share=False)
    assert (merged.operations, merged.merged, merged.dead) == (5, 3, 0)
    assert (apart.operations, apart.merged, apart.dead) == (5, 5, 0)
    assert outputs(merged) == outputs(apart) == [4, 5]
    assert merged.depth == apart.depth == 3


def test_the_same_operation_twice_in_one_program_is_one():
    assert graph(solver("x = rows(I)", "y = rows(I)", "z = plus(x, y)", "z")).merged == 2


def test_what_no_result_depends_on_is_dead():
    of = graph(solver("x = rows(I)", "y = twice(x)", "a, b = pair_of(x, y)", "x"))
    assert (of.operations, of.merged, of.dead) == (5, 1, 4)
    CALLS.clear()
    assert outputs(of) == [2] and not CALLS


def test_constants_are_computed_once_and_demonstrations_once_per_task():
    text = batt("t1 = twice(21)", "t2 = shown(S)", "t3 = plus(t2, t1)", "t4 = plus(t3, rows(I))", "o.append((t4,))")
    of = graph(text)
    assert [of.at(level) for level in Level] == [1, 2, 2]
    assert {node.kind: level for node, level in zip(of.nodes, of.levels, strict=True)}[Kind.CONSTANT] is Level.CONSTANT
    CALLS.clear()
    sequential = Sequential(of)
    shown: list[tuple[Any, ...]] = [(((1,), (2,)),), (((1,), (2,)), ((3,), (4,)))]
    for task, samples in enumerate(shown):
        for height in (1, 2, 3):
            values = sequential.evaluate(Arguments(str(task), samples, ((0,),) * height, ())).values
            assert values[of.programs[0].outputs[0][0]] == 42 + len(samples) + height
    assert CALLS == {"twice": 1, "shown": 2, "plus": 2 + 6}


def test_true_and_one_stay_apart():
    of = graph(solver("x = pair_of(True, 1)", "x"), solver("x = pair_of(1, True)", "x", name="b"))
    assert of.merged == 2
    assert [repr(value) for value in outputs(of)] == ["(True, 1)", "(1, True)"]
    of = graph(solver("x = pair_of((True, 0), (1, False))", "x"))
    assert repr(outputs(of)) == "[((True, 0), (1, False))]"


def test_steps_that_ask_for_other_exceptions_stay_apart():
    def text(caught: str) -> str:
        return f"try:\n        x = rows(I)\n    except {caught}:\n        x = _get_safe_default(rows)"

    def program(name: str, caught: str) -> str:
        return f"def {name}(I):\n    {text(caught)}\n    return x\n"

    assert graph(program("a", "TypeError"), program("b", "ValueError")).merged == 2
    assert graph(program("a", "(TypeError, KeyError)"), program("b", "(KeyError, TypeError)")).merged == 1
    assert graph(program("a", "TypeError"), solver("rows(I)", name="b")).merged == 2


def test_explain_says_what_was_saved():
    of = graph(
        solver("x = rows(I)", "y = twice(ONE)", "x", name="a"), solver("x = rows(I)", "z = twice(x)", "z", name="b")
    )
    text = of.explain()
    for name, count in (("programs", 2), ("operations as written", 4), ("dead", 1), ("shared", 1), ("left", 2)):
        assert re.search(rf"^ *{name} +{count}\b", text, re.MULTILINE), text
    assert "the longest chain has 2" in text and "once per task" in text
    assert "programs" in repr(of) and len(repr(of)) < 1_000


_NUMBER_STEPS = ("twice({0})", "plus({0}, {1})", "at_least_three({0})", "no_integer({0})", "rows(I)", "twice(ONE)")


@st.composite
def solvers(draw: st.DrawFn, name: str) -> str:
    """A program of number operations, of which some fail on some or all samples."""
    lines, names = list[str](), ["ONE", "2"]
    for number in range(draw(st.integers(1, 8))):
        step = draw(st.sampled_from(_NUMBER_STEPS))
        lines.append(f"x{number} = {step.format(draw(st.sampled_from(names)), draw(st.sampled_from(names)))}")
        names.append(f"x{number}")
    return solver(*lines, draw(st.sampled_from(names[2:])), name=name)


@given(texts=st.tuples(*(solvers(name) for name in "abc")), height=st.integers(1, 4), on_error=st.booleans())
def test_merged_and_unmerged_agree(texts: tuple[str, ...], height: int, on_error: bool):
    arguments = Arguments("t", (), ((0,),) * height, ())
    seen = []
    for share in (True, False):
        of = graph(*texts, share=share)
        sequential = Sequential(of, "default" if on_error else "propagate")
        evaluation = sequential.evaluate(arguments)
        outcomes = sequential.outcomes(evaluation)
        values = [
            None if outcome.status == 2 else encode(evaluation.values[program.outputs[0][0]])
            for program, outcome in zip(of.programs, outcomes, strict=True)
        ]
        seen.append((outcomes, values))
    assert seen[0] == seen[1]
    alone = [Sequential(graph(text), "default" if on_error else "propagate") for text in texts]
    assert seen[0][0] == [one.outcomes(one.evaluate(arguments))[0] for one in alone]


def test_numbers_of_operations_add_up():
    of = graph(*(solver("x = rows(I)", "y = twice(x)", "z = twice(y)", "y", name=f"p{number}") for number in range(4)))
    shared = of.operations - of.dead - of.merged
    assert (of.operations, of.dead, shared, of.merged) == (12, 4, 6, 2)
    assert [len(program.steps) for program in of.programs] == [3] * 4


@pytest.mark.parametrize("share", [True, False])
def test_a_program_that_returns_its_input_has_no_operation(share: bool):
    of = graph(solver("I"), share=share)
    assert (of.operations, of.merged, of.depth) == (0, 0, 0)
    assert outputs(of) == [SAMPLE.I]
