"""The emitted module: single calls, what escapes from them, and the log of what failed."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from brimful import programs
from brimful.programs.vocabulary import bound

from ..helpers.words import batt, guarded, solver

GRID = ((1, 2), (3, 4))


def call(text: str, grid: Any = GRID, log: Any = None, shown: Any = (), reference: Any = ()) -> Any:
    return programs.compile(programs.loads(text)).batt("task", shown, grid, reference, log)


def test_a_solver_gives_one_record_and_a_batt_its_own():
    assert call(solver("x = vmirror(I)", "x", name="solve_m") + solver("I", name="solve_i")) == (
        [(0, False, "solve_m", ((2, 1), (4, 3))), (1, False, "solve_i", GRID)],
        [],
    )
    text = batt(
        "t1 = hmirror(I)",
        "t2 = size(S)",
        "s.append((2, 'None', 'differ', t2, True))",
        "o.append((1, False, 'a', t1))",
        "o.append((1, 1, None, C))",
    )
    assert repr(call(text, shown=((GRID, GRID),), reference=((5,),))) == repr(
        ([(1, False, "a", ((3, 4), (1, 2))), (1, 1, None, ((5,),))], [(2, "None", "differ", 1, True)])
    )


def test_defaults_function_values_and_unpacking():
    text = batt(
        *guarded("t2", "argmax(F, size)", "argmax"),
        *guarded("t3", "height(I)", "height"),
        "t4 = compose(size, first)",
        "t5 = t4(I)",
        *guarded("t6", "t4(THREE)", "t4"),
        "t7, t8 = I",
        "t9 = rbind(add, ONE)(TWO)",
        "t10 = sfilter",
        "o.append((t2, t3, t5, t6, t8, t9))",
    )
    assert call(text)[0] == [((), 2, 2, (), (3, 4), 3)]


def test_what_is_not_listed_escapes_from_the_call():
    text = batt(*guarded("t1", "divide(ONE, ZERO)", "divide", "(TypeError, KeyError)"), "o.append((1, t1))")
    with pytest.raises(ZeroDivisionError):
        call(text)
    assert call(text.replace("KeyError", "ArithmeticError"))[0] == [(1, ())]
    with pytest.raises(ZeroDivisionError):
        call(text.replace("(TypeError, KeyError)", "()"))


def test_the_log_has_a_line_per_failure(tmp_path: Path):
    log = tmp_path / "log.jsonl"
    text = batt(
        "t1 = divide(ONE, ZERO)", "t2 = argmax(F, size)", "t3 = height(I)", "o.append((1, t1))", "o.append((t2, t3))"
    )
    call(text, log=str(log))
    call(text, log=log)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) == 4 and lines[:2] == lines[2:]
    assert [(line["task"], line["operation"], line["category"]) for line in lines[:2]] == [
        ("task", "divide", "ZeroDivisionError"),
        ("task", "argmax", "TypeError"),
    ]
    assert all(line["message"] and isinstance(line["node"], int) for line in lines)


def test_a_call_without_failures_or_without_a_log_writes_nothing(tmp_path: Path):
    call(solver("x = vmirror(I)", "x"), log=tmp_path / "log.jsonl")
    call(solver("x = divide(ONE, ZERO)", "x"))
    assert list(tmp_path.iterdir()) == []


def test_what_escapes_is_in_the_log_too(tmp_path: Path):
    log = tmp_path / "log.jsonl"
    text = batt(
        "t1 = divide(ONE, ZERO)", *guarded("t2", "divide(TWO, ZERO)", "divide", "KeyError"), "o.append((t1, t2))"
    )
    with pytest.raises(ZeroDivisionError):
        call(text, log=log)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["operation"], line["category"]) for line in lines] == [
        ("divide", "ZeroDivisionError"),
        (None, "ZeroDivisionError"),
    ]
    assert bound._count.elements is None


def test_it_is_saved_as_a_module(tmp_path: Path):
    compiled = programs.compile(programs.loads(solver("x = vmirror(I)", "x")))
    path = compiled.save(tmp_path / "made", name="mirror")
    assert path == tmp_path / "made" / "mirror.py" and path.read_text() == compiled.source
    module = runpy.run_path(str(path))
    assert module["batt"]("a", (), GRID, ()) == compiled.batt("a", (), GRID, (), None)
    assert "1 programs, 1 operations" in module["__doc__"]
    assert "source" not in repr(compiled)


def test_a_file_name_cannot_end_the_docstring_of_the_module(tmp_path: Path):
    path = tmp_path / '""" + x\\.py'
    path.write_text(solver("x = vmirror(I)", "x"))
    assert programs.compile(path).batt("a", (), GRID, ())[0][0][-1] == ((2, 1), (4, 3))


def test_constants_that_look_alike_stay_apart():
    text = batt("t1 = astuple(True, 1)", "t2 = astuple(1, True)", "o.append((t1, t2, False, 0, -1, (0, False)))")
    assert repr(call(text)[0]) == "[((True, 1), (1, True), False, 0, -1, (0, False))]"
