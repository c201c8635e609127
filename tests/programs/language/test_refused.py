"""What is no program: refused with file, line and operation, and nothing of it is executed."""

from pathlib import Path

import pytest

from brimful import InputError, programs

from ..helpers.words import batt, guarded, read, solver


def one(text: str) -> tuple[int, str, str]:
    """Line, operation and message of the only problem of a text."""
    parsed, problems = read(text)
    assert parsed == [] and len(problems) == 1, problems
    assert problems[0].file == "words.py" and problems[0].fatal
    return problems[0].line, problems[0].operation, problems[0].message


@pytest.mark.parametrize(
    ("statement", "operation", "message"),
    [
        ("for x in I: pass", "for", "a loop; write the operations out"),
        ("while I: pass", "while", "a loop"),
        ("if I: pass", "if", "use branch"),
        ("with I: pass", "with", "a with block"),
        ("import os", "import", "an import"),
        ("from os import path", "importfrom", "an import"),
        ("def f(x): return x", "functiondef", "a function inside of a function"),
        ("class A: pass", "classdef", "a class"),
        ("x = 1; x += 1", "augassign", "in place"),
        ("global x", "global", "a global statement"),
        ("del I", "delete", "a del statement"),
        ("raise ValueError", "raise", "a raise statement"),
        ("assert I", "assert", "an assert statement"),
        ("x: int = 1", "annassign", "is not part of a program"),
        ("x = y = 1", "assign", "is not part of a program"),
        ("return", "return", "is not part of a program"),
        ("x = I.rows", "I.rows", "attribute access"),
        ("x = I.rows()", "I.rows", "attribute access"),
        ("x = rows.__globals__", "rows.__globals__", "attribute access"),
        ("x = ().__class__.__bases__", "().__class__.__bases__", "attribute access"),
        ("I.append((1,))", "append", "is not a list of this program"),
        ("x = I[0]", "I[0]", "indexing"),
        ("x = lambda y: y", "lambda y: y", "a lambda"),
        ("x = [y for y in I]", "[y for y in I]", "a comprehension"),
        ("x = {y for y in I}", "{y for y in I}", "a comprehension"),
        ("x = rows(y for y in I)", "(y for y in I)", "a comprehension"),
        ("x = rows(grid=I)", "rows", "keyword arguments"),
        ("x = rows(*I)", "*I", "a starred argument"),
        ("x = rows(**I)", "rows", "keyword arguments"),
        ("x = rows(y := I)", "(y := I)", "an assignment inside"),
        ("x = 1 + 1", "1 + 1", "arithmetic"),
        ("x = I == 1", "I == 1", "a comparison"),
        ("x = I and I", "I and I", "a boolean expression"),
        ("x = I if I else I", "I if I else I", "a conditional expression"),
        ("x = f'{I}'", "f'{I}'", "a formatted text"),
        ("x = 'text'", "'text'", "is not part of a program"),
        ("x = None", "None", "is not part of a program"),
        ("x = 1.5", "1.5", "is not part of a program"),
        ("x = rows('text')", "'text'", "is not part of a program"),
        ("x = [1]", "[1]", "is not part of a program"),
        ("x = not I", "not I", "is not part of a program"),
        ("x = (1, rows)", "rows", "is not part of a program"),
        ("x = print(I)", "print", "unknown name"),
        ("x = eval(I)", "eval", "unknown name"),
        ("x = __import__(I)", "__import__", "unknown name"),
        ("x = y", "y", "unknown name"),
        ("x = solve_x(I)", "solve_x", "cannot call itself"),
        ("I[0] = 1", "assignment", "the target must be a name"),
        ("(x, (y, z)) = I", "assignment", "the target must be a name"),
        ("x, *y = I", "assignment", "the target must be a name"),
        ("x = yield I", "(yield I)", "yield"),
        (f"x = 0x{'f' * 5000}", "number", "64 bits"),
    ],
)
def test_a_statement_that_is_not_of_the_language(statement: str, operation: str, message: str):
    line, at, text = one(solver("z = rows(I)", statement, "z"))
    assert (line, at) == (3, operation)
    assert message in text


@pytest.mark.parametrize(
    ("text", "line", "operation", "message"),
    [
        ("import os\n", 1, "import", "import of 'os'"),
        ("import dsl, os\n", 1, "import", "import of 'os'"),
        ("from os.path import *\n", 1, "import", "import of 'os.path'"),
        ("from . import dsl\n", 1, "import", "import of ''"),
        ("X = 1\n", 1, "module", "outside of a function"),
        ("print(1)\n", 1, "module", "outside of a function"),
        ("for x in y: pass\n", 1, "module", "a loop"),
        ("class A: pass\n", 1, "module", "a class"),
        ("async def solve_x(I): return I\n", 1, "module", "AsyncFunctionDef"),
        ("@staticmethod\ndef solve_x(I):\n    return I\n", 2, "solve_x", "a decorator"),
        ("def solve_x(I, J):\n    return I\n", 1, "solve_x", "its parameters are (I, J)"),
        ("def solve_x():\n    return 1\n", 1, "solve_x", "its parameters are ()"),
        ("def solve_x(I=1):\n    return I\n", 1, "solve_x", "must be plain names"),
        ("def solve_x(*I):\n    return I\n", 1, "solve_x", "must be plain names"),
        ("def solve_x(*, I):\n    return I\n", 1, "solve_x", "must be plain names"),
        ("def solve_x(I):\n    x = rows(I)\n", 1, "solve_x", "it returns nothing"),
        ("def solve_x(I):\n    return I\n    x = rows(I)\n", 3, "return", "never reached"),
        ("", 1, "module", "no program in this file"),
        ('"""Nothing."""\nfrom dsl import *\n', 1, "module", "no program in this file"),
        ("def solve_x(I):\n    return (I\n", 2, "syntax", "was never closed; this is not Python"),
        ("def solve_x(I)\n    return I\n", 1, "syntax", "expected ':'"),
        ("def solve_x(I):\nreturn I\n", 2, "syntax", "indented block"),
        ("def solve_x(I):\n    return \0I\n", 1, "syntax", "null bytes"),
        ("x = " + "(" * 5000, 1, "syntax", "nested"),
        ("x = " + "-" * 200_000 + "1", 1, "syntax", ""),
    ],
)
def test_a_file_that_is_no_program(text: str, line: int, operation: str, message: str):
    at, what, said = one(text)
    assert (at, what) == (line, operation)
    assert message in said


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (guarded("t1", "rows(turned(I))", "rows"), "one operation per try"),
        (guarded("t1", "adder(1)(I)", "rows"), "one operation per try"),
        (("try:", "    t1 = rows(I)", "except TypeError:", "    t1 = 0"), "must have the form"),
        (("try:", "    t1 = rows(I)", "except TypeError:", "    t2 = _get_safe_default(rows)"), "must have the form"),
        (("try:", "    t1 = rows(I)", "    t2 = rows(I)", "except:", "    t1 = _get_safe_default(rows)"), "the form"),
        ((*guarded("t1", "rows(I)", "rows"), "finally:", "    pass"), "must have the form"),
        ((*guarded("t1", "rows(I)", "rows"), "else:", "    t1 = 1"), "must have the form"),
        (guarded("t1, t2", "pair_of(I, I)", "pair_of"), "must have the form"),
        (guarded("t1", "rows(I)", "rows", "KeyboardInterrupt"), "'KeyboardInterrupt' is no exception"),
        (guarded("t1", "rows(I)", "rows", "(ValueError, print)"), "'print' is no exception"),
        (guarded("t1", "rows(I)", "rows", "os.error"), "'os.error' is no exception"),
    ],
)
def test_a_try_block_of_another_form(lines: tuple[str, ...], message: str):
    line, operation, said = one(batt(*lines, "o.append((1, I))"))
    assert line in (4, 5, 6) and operation == "try"
    assert message in said


@pytest.mark.parametrize(
    ("lines", "operation", "message"),
    [
        (("q.append((1, I))",), "append", "'q' is not a list"),
        (("o.append(I)",), "append", "append a tuple"),
        (("o.append(())",), "append", "append a tuple"),
        (("o.extend((1, I))",), "o.extend", "attribute access"),
        (("t1 = rows(o)",), "o", "'o' is a list of results"),
        (("t1 = rows(log_path)",), "log_path", "no value of a program"),
        (("t1 = batt(task_id, S, I, C, I)",), "batt", "cannot call itself"),
        (("t1 = _get_safe_default(rows)",), "_get_safe_default", "unknown name"),
        (("t1 = _get_safe_default",), "_get_safe_default", "unknown name"),
    ],
)
def test_a_batt_that_is_none(lines: tuple[str, ...], operation: str, message: str):
    line, at, said = one(batt(*lines))
    assert (line, at) == (4, operation)
    assert message in said


def test_a_batt_returns_its_two_lists():
    for returned in ("o", "s, o, o", "[o, s]", "o, 1"):
        text = batt("o.append((1, I))").replace("return o, s", f"return {returned}")
        assert one(text)[0] == 5
    text = "def batt(task_id, S, I, C, log_path):\n    return rows(I)\n"
    assert "return o, s" in one(text)[2]


def test_long_chains_are_a_message_and_no_crash():
    for count in (100, 400, 700, 3_000, 30_000):
        for expression in ("1" + " + 1" * count, "adder" + "(1)" * count, "I" + ".a" * count, "-" * count + "1"):
            parsed, problems = read(solver(f"x = {expression}", "I"))
            assert parsed == [] and len(problems) == 1
            assert count > 400 or "nested more than 50 levels" in problems[0].message
    assert read(solver(f"x = {'rows(' * 20}I{')' * 20}", "I"))[1] == []


def test_nothing_is_executed(tmp_path: Path):
    touched = tmp_path / "touched"
    write = f"open({str(touched)!r}, 'w')"
    texts = [
        f"{write}\n\ndef solve_x(I):\n    return I\n",
        f"def solve_x(I={write}):\n    return I\n",
        f"@{write}\ndef solve_x(I):\n    return I\n",
        f"def solve_x(I: {write}):\n    x = {write}\n    return I\n",
        f"class A({write}): pass\n",
        f"import pathlib\npathlib.Path({str(touched)!r}).touch()\n",
    ]
    for number, text in enumerate(texts):
        file = tmp_path / f"p{number}.py"
        file.write_text(text)
        with pytest.raises(programs.ProgramError, match="Nothing was executed") as raised:
            programs.load(file)
        assert str(file) in str(raised.value)
    assert not touched.exists()


def test_an_error_shows_five_problems_and_has_all(tmp_path: Path):
    file = tmp_path / "many.py"
    file.write_text(solver(*[f"x{number} = nothing{number}(I)" for number in range(8)], "I"))
    with pytest.raises(programs.ProgramError) as raised:
        programs.load(file)
    assert [problem.line for problem in raised.value.problems] == list(range(2, 10))
    assert f"{file}:2: nothing0: unknown name" in str(raised.value)
    assert "nothing4" in str(raised.value) and "nothing5" not in str(raised.value)
    assert "and 3 more: `brimful programs check` shows all" in str(raised.value)


def test_files_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(InputError, match=r"no file .*nothing\.py"):
        programs.load(tmp_path / "nothing.py")
    with pytest.raises(InputError, match="no Python file"):
        programs.load(tmp_path)
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read as text"):
        programs.load(tmp_path / "binary.py")


def test_a_folder_is_all_its_files(tmp_path: Path):
    (tmp_path / "__init__.py").write_text('"""Solvers."""\n')
    (tmp_path / "b.py").write_text(solver("vmirror(I)", name="solve_b"))
    (tmp_path / "a.py").write_text(solver("hmirror(I)", name="solve_a"))
    loaded = programs.load(tmp_path)
    assert [program.name for program in loaded] == ["solve_a", "solve_b"]
    assert [Path(source.file).name for source in loaded.sources] == ["a.py", "b.py"]
    (tmp_path / "c.py").write_text(solver("rot90(I)", name="solve_a"))
    with pytest.raises(InputError, match="defines solve_a more than once"):
        programs.load(tmp_path)
    (tmp_path / "c.py").write_text(f"import os\n{solver('rot90(I)', name='solve_c')}")
    with pytest.raises(programs.ProgramError, match=r"c\.py:1: import"):
        programs.load(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "__init__.py").write_text("")
    with pytest.raises(InputError, match="no program in"):
        programs.load(tmp_path / "empty")
