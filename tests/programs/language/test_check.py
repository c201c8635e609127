"""Calls that can never work: a mistake in a solver, a note in a batt."""

import pytest

from brimful import programs
from brimful.programs.language.check import type_problems
from brimful.programs.language.types import SETS, Type, constant_empty, may_be, safe_default, value_type

from ..helpers.words import batt, solver
from ..helpers.words import programs as parsed


@pytest.mark.parametrize(
    ("statement", "operation", "message"),
    [
        ("x = rows(ONE)", "rows", "argument 1 is Integer; it takes Grid"),
        ("x = rows(I, I)", "rows", "takes 1 arguments, and gets 2"),
        ("x = rows()", "rows", "takes 1 arguments, and gets 0"),
        ("x = rows(adder(ONE))", "rows", "argument 1 is Callable; it takes Grid"),
        ("x = rows(rows)", "rows", "argument 1 is Callable; it takes Grid"),
        ("y = rows(I); x = y(I)", "a function value", "calls a value of type Integer, which is no function"),
    ],
)
def test_what_can_never_work(statement: str, operation: str, message: str):
    (program,) = parsed(solver("z = rows(I)", statement, "x"))
    (problem,) = type_problems(program)
    assert (problem.file, problem.line, problem.operation) == ("words.py", 3, operation)
    assert problem.message == message and problem.fatal
    (program,) = parsed(batt(statement, "o.append((1, x))"))
    (problem,) = type_problems(program)
    assert problem.message == message and not problem.fatal


def test_what_may_work_is_not_reported():
    (program,) = parsed(
        solver(
            "f = no_type(I)",
            "x = f(I)",
            "y = rows(x)",
            "z = rows(pair_of(x, y))",
            "w = plus(YES, I)",
            "v = rows(no_set(I))",
            "v",
        )
    )
    assert list(type_problems(program)) == []


def test_a_solver_with_such_a_call_is_refused_and_a_batt_has_a_note():
    with pytest.raises(programs.ProgramError, match=r"<text>:2: height: argument 1 is Integer; it takes Piece"):
        programs.loads(solver("x = height(THREE)", "x"))
    loaded = programs.loads(batt("t1 = height(THREE)", "o.append((1, t1))"))
    assert [(note.line, note.operation, note.fatal) for note in loaded.notes] == [(4, "height", False)]
    result = programs.run(loaded, [("a", (), ((1,),), ())], progress=False)
    assert result.outputs[0][0] == ([(1, 0)], [])
    assert result.failures[0].operation == "height" and result.failures[0].category == "TypeError"


def test_every_type_has_a_safe_default_and_may_be_itself():
    for kind in Type:
        default = safe_default(kind)
        assert may_be(kind, kind) and may_be(Type.ANY, kind) and may_be(kind, Type.ANY)
        assert (default == frozenset()) is (kind in SETS)
    defaults = {kind: safe_default(kind) for kind in (Type.INTEGER, Type.BOOLEAN, Type.GRID, Type.NUMERICAL, Type.ANY)}
    assert [repr(default) for default in defaults.values()] == ["0", "False", "()", "()", "()"]
    assert safe_default(Type.CALLABLE) is constant_empty and constant_empty(1, 2) == ()


def test_the_types_of_constants():
    values = (True, 1, (1, 2), (1, 2, 3), frozenset({1}), constant_empty, "text", None)
    expected = ("Boolean", "Integer", "IJ", "Tuple", "FrozenSet", "Callable", "Any", "Any")
    assert tuple(value_type(value).value for value in values) == expected
