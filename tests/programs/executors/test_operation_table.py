"""How operations run in the batched executor, and where its time goes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brimful import programs
from brimful.cli.app import app
from brimful.core.declare.summary_text import format_summary
from brimful.programs.executors.operation_table import Form, form_of, operation_table
from brimful.programs.language.operation import declared
from brimful.programs.vocabulary.arc import ARC

from ..helpers.small import TEXT, small, written, written_tasks


def test_forms_come_from_the_kernels():
    assert form_of(ARC["objects"]) is Form.LOOP and form_of(ARC["add"]) is Form.TORCH
    assert form_of(ARC["compose"]) is Form.CLOSURE
    assert form_of(declared(lambda grid: grid, "objects")) is Form.ROWS  # by what it means, not by its name


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
