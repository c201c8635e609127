"""What the front end makes of the two forms of source."""

import pytest

from brimful.programs.language.program import Form, Kind

from ..helpers.words import batt, guarded, programs, read, solver


def test_a_solver_is_its_steps_in_order():
    (program,) = programs(solver("x1 = rows(I)", "x2 = plus(x1, ONE)", "x2"))
    assert (program.name, program.form, program.operations) == ("solve_x", Form.SOLVER, 2)
    steps = [(node.kind, node.name, node.args) for node in program.nodes]
    assert steps == [
        (Kind.INPUT, "I", ()),
        (Kind.OPERATION, "rows", (0,)),
        (Kind.CONSTANT, "", ()),
        (Kind.OPERATION, "plus", (1, 2)),
    ]
    assert program.lines == (1, 2, 3, 3)
    assert program.outputs == ((3,),) and program.scores == ()


def test_a_batt_has_outputs_scores_and_what_its_try_blocks_say():
    text = batt(
        *guarded("t1", "rows(I)", "rows", "(TypeError, IndexError)"),
        "t2 = plus(t1, 1)",
        "s.append((2, 'None', 'differ_1', t2))",
        "o.append((1, False, 'abc', t1))",
    )
    (program,) = programs("from pile import *\nimport gpu_env\nfrom safe_dsl import _get_safe_default\n\n" + text)
    assert program.form is Form.BATT and program.operations == 2
    guarded_step = next(node for node in program.nodes if node.name == "rows")
    bare = next(node for node in program.nodes if node.name == "plus")
    assert guarded_step.catches == {"TypeError", "IndexError"} and guarded_step.fallback is None
    assert bare.catches is None
    assert [program.nodes[node].value for node in program.outputs[0][:3]] == [1, False, "abc"]
    assert [program.nodes[node].value for node in program.scores[0][:3]] == [2, "None", "differ_1"]
    assert program.candidates == (program.outputs[0][-1],)


def test_functions_are_values_and_can_be_called():
    (program,) = programs(solver("f = adder(ONE)", "g = rows", "x = f(ONE)", "y = g(I)", "z = adder(ONE)(2)", "y"))
    kinds = [node.kind for node in program.nodes if node.computed or node.kind is Kind.FUNCTION]
    assert kinds == [Kind.OPERATION, Kind.FUNCTION, Kind.CALL, Kind.CALL, Kind.OPERATION, Kind.CALL]


def test_nested_calls_and_unpacking_are_steps_of_their_own():
    (program,) = programs(solver("a, b = pair_of(rows(I), 2)", "plus(a, b)"))
    computed = [(node.kind, node.name, node.value) for node in program.nodes if node.computed]
    assert computed == [
        (Kind.OPERATION, "rows", None),
        (Kind.OPERATION, "pair_of", None),
        (Kind.ITEM, "", (0, 2)),
        (Kind.ITEM, "", (1, 2)),
        (Kind.OPERATION, "plus", None),
    ]


def test_constants_may_be_written_out():
    (program,) = programs(solver("x = pair_of(-3, (True, (1, 2)))", "x"))
    assert [node.value for node in program.nodes if node.kind is Kind.CONSTANT] == [-3, (True, (1, 2))]


def test_other_inputs_and_names_of_them():
    (program,) = programs("def solve_x(grid):\n    return grid\n")
    assert program.nodes[0].name == "I"
    (program,) = programs("def f(S, I, C):\n    return pair_of(S, C)\n")
    assert [node.name for node in program.nodes[:3]] == ["S", "I", "C"]


def test_a_name_may_be_assigned_again():
    (program,) = programs(solver("x = rows(I)", "x = twice(x)", "x"))
    assert program.nodes[program.outputs[0][0]].name == "twice"


def test_comments_docstrings_and_pass_are_no_steps():
    text = '"""A file."""\nfrom dsl import *\nfrom constants import *\n\ndef solve_x(I):\n    "Doc."\n    pass  # why\n'
    (program,) = programs(text + "    return rows(I)\n")
    assert program.operations == 1 and program.lines[1] == 8


def test_a_function_value_has_its_own_default_in_a_try_block():
    text = batt("t1 = adder(1)", *guarded("t2", "t1(I)", "t1"), *guarded("t3", "rows(I)", "t1"), "o.append((t2, t3))")
    (program,) = programs(text)
    call = next(node for node in program.nodes if node.kind is Kind.CALL)
    other = next(node for node in program.nodes if node.name == "rows")
    assert call.fallback == call.args[0] == other.fallback


@pytest.mark.parametrize(
    ("caught", "names"),
    [("", {"Exception"}), ("KeyError", {"KeyError"}), ("(KeyError,)", {"KeyError"}), ("()", set[str]())],
)
def test_what_a_handler_lists(caught: str, names: set[str]):
    (program,) = programs(batt(*guarded("t1", "rows(I)", "rows", caught), "o.append((t1,))"))
    assert program.nodes[-1].catches == names or program.nodes[4].catches == names


def test_all_problems_of_a_file_are_reported_once_each():
    text = solver("x = nothing(I)", "y = rows(x)", "z = rows(y) + 1", "missing")
    parsed, problems = read(text + "\nimport os\n")
    assert parsed == []
    assert [(problem.line, problem.operation) for problem in problems] == [
        (2, "nothing"),
        (4, "rows(y) + 1"),
        (5, "missing"),
        (7, "import"),
    ]
    assert str(problems[0]).startswith("words.py:2: nothing: unknown name")
