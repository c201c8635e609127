"""How operations run in the batched executor, and where its time goes."""

import json
import re
import runpy
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brimful import InputError, programs
from brimful.cli.app import app
from brimful.core.declare.summary_text import format_summary
from brimful.programs.executors.operation_forms import Form, forms_of
from brimful.programs.executors.operation_table import operation_table
from brimful.programs.language.operation import declared
from brimful.programs.vocabulary.arc import ARC

from ..helpers.small import TEXT, small, tasks, written, written_tasks


def test_forms_come_from_the_kernels():
    assert forms_of(ARC["objects"]) == (Form.LOOP, Form.TRITON) and forms_of(ARC["even"]) == (Form.TORCH, Form.TORCH)
    assert forms_of(ARC["compose"]) == (Form.CLOSURE, Form.CLOSURE)
    by_rows = forms_of(declared(lambda grid: grid, "objects"))  # by what it means, not by its name
    assert by_rows == (Form.ROWS, Form.ROWS) and by_rows.fallback == ""
    assert forms_of(ARC["fill"]).fallback == "torch; row by row" and forms_of(ARC["even"]).fallback == "row by row"


def test_a_compiled_module_says_how_it_runs(tmp_path: Path):
    loaded = programs.loads(TEXT)
    plain = programs.compile(loaded)
    assert re.search(r"vmirror +1 +compiled loop +(torch|Triton) +torch; row by row\n", plain.source)
    assert "measured" not in plain.source and all(of.time_share == 0 for of in plain.operations)
    timed = programs.compile(loaded, tasks(), count=4, device="cpu")
    assert "time measured on 4 samples, cpu:" in timed.source
    shares = re.findall(r"^  \w+ .* (\d+\.\d)%$", timed.source, re.MULTILINE)
    assert len(shares) == len(timed.operations) and sum(map(float, shares)) == pytest.approx(100, abs=0.5)
    doc = runpy.run_path(str(timed.save(tmp_path)))["__doc__"]
    assert all(of.operation in doc for of in timed.operations)
    assert len((tmp_path / "batt.csv").read_text().splitlines()) == 1 + len(timed.operations)
    with pytest.raises(InputError, match="none of the samples can be read: nothing to measure on"):
        programs.compile(loaded, [("a", (), ((1, 2), (3,)), ())])


def test_a_table_of_a_run():
    result = small(executor="batched")
    rows = {row["operation"]: row for row in result.operations.to_pylist()}
    assert rows["vmirror"]["count"] == 1 and rows["vmirror"]["rows"] == 15
    assert rows["vmirror"]["form"] in ("torch", "compiled loop")
    assert sum(row["time_share"] for row in rows.values()) == pytest.approx(1)
    assert small(executor="sequential").operations.num_rows == 0
    static = operation_table(programs.loads(TEXT).merge(), {})
    assert {row.operation for row in static} == {row["operation"] for row in result.operations.to_pylist()}
    assert all(row.rows == row.seconds == 0 for row in static)


def test_explain_on_the_command_line(tmp_path: Path):
    arguments = ["programs", "explain", str(written(tmp_path)), "--data", str(written_tasks(tmp_path / "tasks"))]
    result = CliRunner().invoke(app, [*arguments, "--device", "cpu"])
    assert result.exit_code == 0 and "rows sequential" in result.stdout and "compiled loop" in result.stdout
    static = CliRunner().invoke(app, [*arguments, "--samples", "0", "--json"])
    rows = json.loads(static.stdout)["operations"]
    assert {"operation", "count", "form", "rows", "time_share"} <= rows[0].keys()


def test_a_summary_with_a_table():
    text = format_summary({"items": 3, "parts": [{"name": "a", "time_share": 0.25}, {"name": "b", "time_share": None}]})
    assert "items  3" in text and text.splitlines()[-1].split() == ["b"]
