"""What a run gives back: tables, scores, a submission, and the summary."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful import CorruptError, programs
from brimful.data.ragged import Ragged
from brimful.programs.batched import compiled
from brimful.programs.encoded_outputs import EncodedOutputs
from brimful.programs.execution.encoding import FunctionName, encode_returned
from brimful.programs.table import SCHEMA, _shown, as_text

from .helpers.small import TEXT, mirrored, small, task, tasks
from .helpers.words import batt, solver

_SCALAR = st.one_of(
    st.booleans(), st.integers(-(2**70), 2**70), st.integers(-40_000, 40_000), st.floats(-9, 9), st.text()
)
_SMALL = st.lists(st.lists(st.integers(-3, 300), min_size=1, max_size=4).map(tuple), min_size=1, max_size=4).map(tuple)
ANY_VALUE = st.one_of(
    _SMALL,
    st.recursive(
        st.one_of(_SCALAR, _SMALL),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4).map(tuple), st.frozensets(st.integers(0, 9)), st.frozensets(_SMALL, max_size=3)
        ),
        max_leaves=12,
    ),
)


@pytest.fixture(scope="module")
def result() -> programs.ProgramResult:
    return small()


def test_the_table_has_a_row_per_program_and_sample(result: programs.ProgramResult):
    table = result.table()
    assert table.schema == SCHEMA and table.num_rows == 45
    row = table.to_pylist()[0]
    first = result.samples[0]
    assert (row["program"], row["task"], row["kind"], row["pair"]) == ("solve_mirror", "mirror", "train", 0)
    assert (row["status"], row["operation"], row["equal"]) == ("ok", None, True)
    assert row["output"] == [list(line) for line in mirrored(first.I)] and row["text"] is None
    failed = [row for row in table.to_pylist() if row["operation"]]
    assert len(failed) == 5
    assert (failed[0]["operation"], failed[0]["line"], failed[0]["category"]) == ("argmax", 14, "ValueError")
    assert failed[0]["status"] == "defaulted"
    assert [row["equal"] for row in table.to_pylist() if row["kind"] == "test" and row["pair"] == 1] == [None] * 9


def test_values_that_are_no_grids_are_texts():
    text = solver("x = asindices(I)", "x", name="a") + solver("x = rbind(add, ONE)", "x", name="b")
    text += solver("x = astuple(T, size(I))", "x", name="c")
    rows = programs.run(programs.loads(text), [("a", (), ((1, 2),), ())], device="cpu", progress=False).table()
    assert [row["output"] for row in rows.to_pylist()] == [None] * 3
    texts = [row["text"] for row in rows.to_pylist()]
    assert texts[0] == "frozenset({(0, 0), (0, 1)})" and texts[1].startswith("<function ") and texts[2] == "(True, 1)"


def test_grids_of_rows_of_unequal_length_and_wide_numbers_are_lists():
    text = solver("x = canvas(NEG_TWO, astuple(TWO, ONE))", "y = canvas(TEN, astuple(ONE, THREE))",
                  "z = vconcat(x, y)", "z", name="a")  # fmt: skip
    row = programs.run(programs.loads(text), [("a", (), ((1, 2),), ())], device="cpu", progress=False).table()
    assert row.to_pylist()[0]["output"] == [[-2], [-2], [10, 10, 10]] and row.to_pylist()[0]["text"] is None


def test_a_grid_larger_than_those_of_arc_is_named_by_its_size():
    text = solver("x = upscale(I, TEN)", "y = upscale(x, TEN)", "y", name="a") + solver(
        "x = asindices(I)", "x", name="b"
    )
    run = programs.run(programs.loads(text), [("a", (), ((1, 2),), ())], device="cpu", progress=False)
    row = run.table().to_pylist()[0]
    assert row["output"] is None and row["text"] == "<a grid of 20,000 cells in 100 rows>"
    assert len(run.outputs[0][0]) == 100


@given(values=st.lists(st.one_of(st.none(), ANY_VALUE), min_size=1, max_size=6))
def test_tables_read_bytes_as_decoding_does(values: list[Any]):
    """Rows that the table has against what the decoded values say, for any values that programs may return."""
    loaded = programs.loads("".join(solver("x = hmirror(I)", "x", name=f"p{at}") for at in range(len(values))))
    encoded = encode_returned([None if value is None else ([(value,)], []) for value in values])
    flat = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
    outputs = EncodedOutputs.of(loaded, Ragged(flat, torch.tensor([0, len(flat)])))
    shown = _shown(outputs, np.zeros(len(values), np.int64), np.arange(len(values)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "compiles", lambda: False)
        again = EncodedOutputs.of(loaded, Ragged(flat, torch.tensor([0, len(flat)])))
        assert shown == _shown(again, np.zeros(len(values), np.int64), np.arange(len(values)))
    for at, value in enumerate(values):
        grid = bool(value) and type(value) is tuple and all(type(row) is tuple and row for row in value)
        cells = [cell for row in value for cell in row] if grid else []
        grid = bool(cells) and all(type(cell) is int and abs(cell) < 1 << 15 for cell in cells)
        assert outputs.value(0, at) == value
        assert shown["output"][at].as_py() == ([list(row) for row in value] if grid else None)
        assert shown["text"][at].as_py() == (None if grid or value is None else as_text(value))


@pytest.mark.parametrize("compiles", [True, False])
@pytest.mark.parametrize("cut", [1, 4, 9])
def test_damaged_bytes_are_named(monkeypatch: pytest.MonkeyPatch, cut: int, compiles: bool):
    monkeypatch.setattr(compiled, "compiles", lambda: compiles)
    loaded = programs.loads(solver("x = hmirror(I)", "x"))
    encoded = encode_returned([([(((1, 2), (3, 4)),)], [])])[:-cut]
    flat = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
    with pytest.raises(CorruptError, match="run it again"):
        EncodedOutputs.of(loaded, Ragged(flat, torch.tensor([0, len(flat)])))


def test_texts_are_in_canonical_order():
    assert as_text(frozenset({3, 1, 2})) == "frozenset({1, 2, 3})"
    assert as_text((frozenset(), (1,), -2)) == "(frozenset(), (1,), -2)"
    functions = [FunctionName(name) for name in ("c", "a", "b")]
    assert as_text(frozenset(functions)) == "frozenset({<function a>, <function b>, <function c>})"
    with pytest.raises(TypeError, match="only the name of a function"):
        functions[0]()


def test_scores_say_which_programs_solve_which_tasks(result: programs.ProgramResult):
    rows = {(row["program"], row["task"]): row for row in result.scores.to_pylist()}
    assert len(rows) == 9
    best = rows["solve_mirror", "mirror"]
    assert (best["demonstrations_right"], best["demonstrations"], best["tests_right"], best["tests"]) == (3, 3, 1, 1)
    assert best["solved"] and best["solved_demonstrations"]
    assert not rows["solve_other", "mirror"]["solved"]
    assert rows["solve_other", "blank"]["solved"]  # all black: any mirror does


def test_a_program_that_gets_the_demonstrations_right_and_a_test_wrong():
    made = task("m", 0)
    wrong = programs.Task("m", made.train, (programs.Pair(((1, 2),), ((9, 9),)), made.test[1]))
    row = programs.run(programs.loads(TEXT), [wrong], device="cpu", progress=False).scores.to_pylist()[0]
    assert row["solved_demonstrations"] and not row["solved"] and row["tests_right"] == 0


def test_a_demonstration_without_an_output_does_not_count_and_a_damaged_one_does():
    pairs = [{"input": [[1, 2]], "output": [[2, 1]]}, {"input": [[1, 2]]}]
    tests = [{"input": [[3, 4]], "output": [[4, 3]]}]
    loaded = programs.loads(solver("x = vmirror(I)", "x"))

    def score(*train: Any) -> dict[str, Any]:
        made = programs.Task.of("a", {"train": list(train), "test": tests})
        rows = programs.run(loaded, [made], device="cpu", progress=False).scores.to_pylist()
        return rows[0] if rows else {}

    assert score(*pairs)["solved"] and score(*pairs)["demonstrations"] == 1
    assert score(*pairs, {"input": [[55]]}) == {}  # the task is flagged


def test_the_submission_has_two_attempts_best_first(result: programs.ProgramResult):
    submission = result.submission()
    assert set(submission) == {"mirror", "blank", "third"}
    for name, attempts in submission.items():
        tests = [sample for sample in result.samples if sample.task == name and sample.kind == "test"]
        assert len(attempts) == 2
        for sample, both in zip(tests, attempts, strict=True):
            assert set(both) == {"attempt_1", "attempt_2"}
            assert both["attempt_1"] == [list(row) for row in mirrored(sample.I)]
            assert name == "blank" or both["attempt_2"] != both["attempt_1"]
    json.dumps(submission)


def test_what_is_no_grid_of_arc_is_not_submitted():
    text = solver("x = size(I)", "x", name="a") + solver("x = upscale(I, TEN)", "y = upscale(x, TEN)", "y", name="b")
    text += solver("x = canvas(T, UNITY)", "x", name="c")
    submission = programs.run(programs.loads(text), tasks()[:1], device="cpu", progress=False).submission()
    assert submission["mirror"][0] == {"attempt_1": [[0]], "attempt_2": [[0]]}


def test_the_outputs_of_a_batt_compete(result: programs.ProgramResult):
    text = batt("t1 = hmirror(I)", "t2 = vmirror(I)", "o.append((1, t1))", "o.append((2, t2))")
    run = programs.run(programs.loads(text), tasks(), device="cpu", progress=False)
    assert [one["attempt_1"] for one in run.submission()["mirror"]] == [
        one["attempt_1"] for one in result.submission()["mirror"]
    ]


def test_the_summary(result: programs.ProgramResult):
    summary = json.loads(json.dumps(result.summary()))
    expected = {"programs": 3, "operations": 8, "operations_merged": 6, "samples": 15, "flagged": 0, "tasks": 3}
    assert {name: summary[name] for name in expected} == expected
    assert (summary["solved"], summary["outputs"], summary["failed"], summary["defaulted"]) == (3, 45, 0, 5)
    assert summary["failed_by_category"] == {"ValueError": 5}
    assert summary["seconds"] > 0 and summary["predicted_peak_bytes"] >= 0
    assert "solved=3" in repr(result) and "<table>" in result._repr_html_()
