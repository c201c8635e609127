"""The meaning of a program: what an operation yields that fails, and what becomes of the program."""

from typing import Any

import pytest

from brimful import ConfigError
from brimful.programs.execution.arguments import Arguments
from brimful.programs.execution.failures import Category, ProgramStatus, category_of
from brimful.programs.execution.sequential import ENDED, Evaluation, Outcome, Sequential
from brimful.programs.language.graph import Graph
from brimful.programs.language.types import constant_empty
from brimful.programs.vocabulary import bound

from ..helpers.words import batt, guarded, programs, solver

SAMPLE = Arguments("task", (), ((1, 2), (3, 4)), ())


def run(text: str, on_error: str = "default", arguments: Arguments = SAMPLE) -> tuple[Any, list[Outcome], Evaluation]:
    """The outputs of the first program, the outcomes of all, and all values."""
    sequential = Sequential(Graph.of(programs(text)), on_error)
    evaluation = sequential.evaluate(arguments)
    outcomes = sequential.outcomes(evaluation)
    records = evaluation.records(sequential.graph.programs[0].outputs)
    return records[0][-1] if len(records) == 1 else records, outcomes, evaluation


@pytest.mark.parametrize(
    ("operation", "default", "category", "label"),
    [
        ("no_integer", 0, Category.INDEX, "IndexError"),
        ("no_set", frozenset(), Category.VALUE, "ValueError"),
        ("no_flag", False, Category.KEY, "KeyError"),
        ("no_function", constant_empty, Category.ATTRIBUTE, "AttributeError"),
        ("no_grid", (), Category.ZERO_DIVISION, "ZeroDivisionError"),
        ("no_type", (), Category.TYPE, "TypeError"),
        ("no_more", (), Category.STOP_ITERATION, "StopIteration"),
        ("endless", (), Category.RECURSION, "RecursionError"),
        ("odd", (), Category.OTHER, "other"),
        ("huge", (), Category.SIZE, "SizeError"),
    ],
)
def test_an_operation_that_fails_yields_the_default_of_its_type(
    operation: str, default: Any, category: Category, label: str
):
    value, outcomes, evaluation = run(solver(f"x = {operation}(I)", "x"))
    assert value is default if callable(default) else repr(value) == repr(default)
    assert outcomes == [Outcome(ProgramStatus.DEFAULTED, 1, category)]
    assert category.label == label
    assert [failure.category for failure in evaluation.failures.values()] == [category]
    value, outcomes, evaluation = run(solver(f"x = {operation}(I)", "y = rows(I)", "z = plus(y, x)", "z"), "propagate")
    assert value is ENDED and outcomes == [Outcome(ProgramStatus.FAILED, 1, category)]
    assert "an operation before it failed" in repr(value)


def test_categories_have_names_of_their_own():
    assert len({category.label for category in Category}) == len(Category)
    assert category_of(UnicodeError()) is Category.VALUE and category_of(OverflowError()) is Category.OVERFLOW
    assert category_of(bound.SizeError("x")) is Category.SIZE


def test_the_program_goes_on_with_the_default():
    value, outcomes, _ = run(solver("x = no_integer(I)", "y = plus(x, 5)", "y"))
    assert (value, outcomes[0].status) == (5, ProgramStatus.DEFAULTED)
    value, outcomes, _ = run(solver("f = no_function(I)", "x = f(I)", "x"))
    assert value == () and outcomes[0].step == 1


def test_a_failure_that_an_output_does_not_depend_on_does_not_concern_it():
    text = batt("t1 = no_integer(I)", "t2 = rows(I)", "o.append((1, t1))", "o.append((2, t2))")
    _, outcomes, _ = run(text)
    assert [outcome.status for outcome in outcomes] == [ProgramStatus.DEFAULTED, ProgramStatus.OK]
    assert outcomes[1] == Outcome(ProgramStatus.OK, -1, Category.NONE)
    _, outcomes, _ = run(text, "propagate")
    assert [outcome.status for outcome in outcomes] == [ProgramStatus.FAILED] * 2


def test_only_the_listed_exceptions_give_the_default():
    text = batt(*guarded("t1", "no_integer(I)", "no_integer", "(TypeError, IndexError)"), "o.append((1, t1))")
    value, outcomes, _ = run(text)
    assert value == 0 and outcomes[0].status is ProgramStatus.DEFAULTED
    text = text.replace("IndexError", "KeyError")
    value, outcomes, _ = run(text + solver("rows(I)"))
    assert value is ENDED
    assert [outcome.status for outcome in outcomes] == [ProgramStatus.FAILED, ProgramStatus.OK]
    sequential = Sequential(Graph.of(programs(text + solver("rows(I)"))))
    evaluation = sequential.evaluate(SAMPLE)
    with pytest.raises(IndexError, match="no integer"):
        sequential.result(evaluation, sequential.graph.programs[0])
    assert sequential.result(evaluation, sequential.graph.programs[1]) == ([(2,)], [])


def test_a_listed_base_class_gives_the_default_too():
    text = batt(*guarded("t1", "no_integer(I)", "no_integer", "LookupError"), "o.append((1, t1))")
    assert run(text)[0] == 0
    assert run(text.replace("LookupError", "ArithmeticError"))[0] is ENDED
    assert run(text.replace("LookupError", "()"))[0] is ENDED


def test_an_exception_that_escapes_ends_the_program_for_all_of_its_outputs():
    text = batt(
        "t1 = rows(I)",
        "o.append((1, t1))",
        *guarded("t2", "no_integer(I)", "no_integer", "KeyError"),
        "s.append((2, t2))",
    )
    _, outcomes, evaluation = run(text)
    assert outcomes == [Outcome(ProgramStatus.FAILED, outcomes[0].step, Category.INDEX)]
    assert [failure.escaped for failure in evaluation.failures.values()] == [True]


def test_the_default_of_another_function_and_of_a_function_value():
    text = batt(*guarded("t1", "no_integer(I)", "no_set", "IndexError"), "o.append((1, t1))")
    assert run(text)[0] == frozenset()
    text = batt("f = no_integer", *guarded("t1", "f(I)", "f", "IndexError"), "o.append((1, t1))")
    assert run(text)[0] == 0
    text = batt("f = adder(1)", *guarded("t1", "f(I)", "f", "TypeError"), "o.append((1, t1))")
    assert run(text)[0] == ()
    assert run(batt("f = rows(I)", "t1 = f(I)", "o.append((1, t1))"))[0] == ()


def test_function_values():
    assert run(solver("f = adder(40)", "x = f(2)", "x"))[0] == 42
    assert run(solver("x = adder(40)(2)", "x"))[0] == 42
    assert run(solver("f = rows", "x = f(I)", "x"))[0] == 2
    value, outcomes, _ = run(solver("f = adder(40)", "x = f(I)", "x"))
    assert value == () and outcomes[0].category is Category.TYPE


def test_unpacking_takes_what_python_takes():
    assert run(solver("a, b = I", "b"))[0] == (3, 4)
    value, outcomes, _ = run(solver("a, b, c = I", "c"))
    assert value == () and outcomes[0].category is Category.VALUE
    value, outcomes, _ = run(solver("a, b = rows(I)", "a"))
    assert value == () and outcomes[0].category is Category.TYPE
    assert run(solver("a, b, c = I", "c"), "propagate")[1][0].status is ProgramStatus.FAILED


def test_the_first_failing_step_is_the_first_in_the_source_whatever_the_merge_order():
    first = solver("x = no_set(I)", "y = no_integer(I)", "z = pair_of(y, x)", "z", name="a")
    second = solver("y = no_integer(I)", "x = no_set(I)", "z = pair_of(y, x)", "z", name="b")
    for text in (first + second, second + first):
        for on_error in ("default", "propagate"):
            _, outcomes, _ = run(text, on_error)
            by_name = dict(zip([program.name for program in programs(text)], outcomes, strict=True))
            assert (by_name["a"].step, by_name["a"].category) == (1, Category.VALUE)
            assert (by_name["b"].step, by_name["b"].category) == (1, Category.INDEX)
    _, outcomes, _ = run(solver("x = rows(I)", "x", name="c") + first)
    assert outcomes[1].step == 1


def test_a_failure_of_the_demonstrations_is_one_of_every_sample():
    text = batt("t1 = no_integer(S)", "t2 = plus(t1, rows(I))", "o.append((1, t2))")
    sequential = Sequential(Graph.of(programs(text)))
    for height in (1, 2):
        evaluation = sequential.evaluate(Arguments("a", (), ((0,),) * height, ()))
        assert evaluation.values[sequential.graph.programs[0].outputs[0][-1]] == height
        assert sequential.outcomes(evaluation)[0].category is Category.INDEX
    sequential = Sequential(Graph.of(programs(text)), "propagate")
    for _ in range(2):
        assert sequential.outcomes(sequential.evaluate(SAMPLE))[0].status is ProgramStatus.FAILED


def test_a_failure_of_a_constant_is_one_of_every_sample():
    sequential = Sequential(Graph.of(programs(solver("x = no_integer(ONE)", "y = plus(x, rows(I))", "y"))))
    for _ in range(2):
        evaluation = sequential.evaluate(SAMPLE)
        assert sequential.outcomes(evaluation) == [Outcome(ProgramStatus.DEFAULTED, 2, Category.INDEX)]


def test_one_sample_does_not_see_the_failures_of_another():
    sequential = Sequential(Graph.of(programs(solver("x = at_least_three(rows(I))", "x"))))
    statuses = []
    for height in (3, 2, 4):
        evaluation = sequential.evaluate(Arguments("a", (), ((0,),) * height, ()))
        statuses.append((sequential.outcomes(evaluation)[0].status, evaluation.values[-1]))
    assert statuses == [(ProgramStatus.OK, 3), (ProgramStatus.DEFAULTED, 0), (ProgramStatus.OK, 4)]


def test_other_demonstrations_of_one_task_are_not_taken_for_the_first():
    sequential = Sequential(Graph.of(programs(batt("t1 = shown(S)", "o.append((1, t1))"))))
    for count in (1, 3):
        evaluation = sequential.evaluate(Arguments("a", ((),) * count, ((0,),), ()))
        assert evaluation.records(sequential.graph.programs[0].outputs) == [(1, count)]


def test_out_of_memory_is_no_failure_of_an_operation():
    for on_error in ("default", "propagate"):
        with pytest.raises(MemoryError):
            run(solver("x = no_memory(I)", "x"), on_error)
    with pytest.raises(MemoryError):
        run(batt(*guarded("t1", "no_memory(I)", "no_memory", "Exception"), "o.append((1, t1))"))


def test_the_bound_on_size_ends_with_the_run():
    run(solver("x = huge(I)", "x"))
    assert bound._count.elements is None


def test_an_unknown_way_with_errors():
    with pytest.raises(ConfigError, match="on_error is 'ignore'; choose one of default, propagate"):
        Sequential(Graph.of(programs(solver("I"))), "ignore")
