"""`brimful programs` as a user meets it."""

import csv
import json
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from brimful import programs
from brimful.cli.app import app
from brimful.programs import verify

from .helpers.small import written, written_tasks
from .helpers.words import batt, guarded, solver

CPU = ("--device", "cpu")


def invoke(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["programs", *arguments, "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def fails(*arguments: str) -> str:
    """What is on standard error, when nothing is on standard output and there is no traceback."""
    result = CliRunner().invoke(app, ["programs", *arguments])
    assert result.exit_code in (1, 2)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of solvers, a folder of tasks, and a run of them."""
    path = tmp_path_factory.mktemp("cli")
    written(path)
    written_tasks(path / "tasks")
    arguments = ("--data", str(path / "tasks"), "--device", "cpu", "--verify", "5")
    summary = invoke("run", str(path / "solvers.py"), *arguments, "--out", str(path / "run"))
    (path / "summary.json").write_text(json.dumps(summary))
    return path


def test_check_says_what_merging_saves(folder: Path):
    summary = invoke("check", str(folder / "solvers.py"))
    expected = {"programs": 3, "vocabulary": "arc-dsl", "operations": 8, "operations_merged": 6, "operations_dead": 1}
    assert {name: summary[name] for name in expected} == expected
    assert summary["depth"] == 4 and summary["always_failing"] == 0


def test_check_names_all_that_is_wrong_and_what_will_always_fail(tmp_path: Path):
    path = tmp_path / "wrong.py"
    path.write_text(solver("x = nothing(I)", "y = size(F)", "y") + "import os\n")
    said = fails("check", str(path))
    assert "wrong.py:2: nothing: unknown name" in said.replace("\n", "") and "import of 'os'" in said
    path.write_text(batt("t1 = height(THREE)", "o.append((1, t1))"))
    result = CliRunner().invoke(app, ["programs", "check", str(path), "--json"])
    assert json.loads(result.stdout)["always_failing"] == 1
    assert "will fail on every sample" in " ".join(result.stderr.split())


def test_compile_writes_a_module(folder: Path):
    summary = invoke("compile", str(folder / "solvers.py"), "--out", str(folder / "compiled"))
    module = runpy.run_path(summary["module"])
    assert summary["operations_merged"] == 6
    assert module["batt"]("a", (), ((1, 2),), ())[0][0] == (0, False, "solve_mirror", ((2, 1),))
    assert "is a file; name the folder" in fails("compile", str(folder / "solvers.py"), "--out", summary["module"])


def test_compile_writes_how_operations_run(folder: Path, tmp_path: Path):
    arguments = ["compile", str(folder / "solvers.py"), "--out", str(tmp_path), "--device", "cpu"]
    tables = []
    for more in ([], ["--data", str(folder / "tasks"), "--samples", "5"]):
        summary = invoke(*arguments, *more)
        with Path(summary["table"]).open() as file:
            tables.append({row["operation"]: row for row in csv.DictReader(file)})
        assert [row["operation"] for row in summary["plan"]] == list(tables[-1])
        assert all((row["time_share"] is None) == (not more) for row in summary["plan"])
    plain, timed = tables
    assert plain.keys() == timed.keys() and plain["vmirror"]["form"] == "compiled loop"
    assert plain["vmirror"]["fallback"] == "torch; row by row"
    assert plain["vmirror"]["gpu_form"] in ("torch", "Triton")
    assert {row["rows"] for row in plain.values()} == {"0"}
    assert sum(float(row["time_share"]) for row in timed.values()) == pytest.approx(1)
    assert int(timed["vmirror"]["rows"]) >= 5


def test_run_scores_verifies_and_writes(folder: Path):
    summary = json.loads((folder / "summary.json").read_text())
    for name in ("programs", "operations", "operations_merged", "samples", "solved", "seconds", "failed_by_category"):
        assert name in summary
    assert (summary["samples"], summary["solved"], summary["verified"]) == (15, 3, 5)
    assert {Path(picture).name for picture in summary["pictures"]} == {"grids.png", "failures.png"}
    assert all(Path(picture).exists() for picture in summary["pictures"])
    assert pq.read_table(folder / "run" / "results.parquet").num_rows == 45
    assert set(json.loads((folder / "run" / "submission.json").read_text())) == {"mirror", "blank", "third"}
    tasks = ("--data", str(folder / "tasks"), "--device", "cpu")
    named = invoke("run", str(folder / "solvers.py"), *tasks, "--pair-by-name", "--on-error", "propagate")
    assert (named["solved"], named["outputs"], named["failed"]) == (1, 5, 0)
    assert named["pictures"] == []


def test_report_of_a_run(folder: Path):
    summary = invoke("report", str(folder / "run"), "--out", str(folder / "report"))
    assert summary["solved"] == 3 and (folder / "report" / "grids.png").exists()
    assert "brimful programs run" in fails("report", str(folder / "tasks"))


def test_generate_writes_a_batt_that_runs(folder: Path):
    out = folder / "batts" / "made.py"
    summary = invoke("generate", str(folder / "solvers.py"), "--operations", "20", "--seed", "4", "--out", str(out))
    assert summary["operations"] == 20 and summary["file"] == str(out)
    assert programs.load(out)[0].operations == 20
    run = invoke("run", str(out), "--data", str(folder / "tasks"), "--device", "cpu", "--verify", "15")
    assert run["verified"] == 15 and run["programs"] == 1


def test_verify_compares_what_escapes_too(folder: Path, monkeypatch: pytest.MonkeyPatch):
    path = folder / "escapes.py"
    path.write_text(batt(*guarded("t1", "first(F)", "first", "KeyError"), "o.append((1, t1))"))
    tasks = ("--data", str(folder / "tasks"), "--device", "cpu", "--verify", "15")
    assert invoke("run", str(path), *tasks)["verified"] == 15
    plain = verify.compile

    def other(loaded: Any) -> Any:
        made = plain(loaded)
        return replace(made, batt=lambda *sample: ([(0, False, "x", ((9,),))], []))

    monkeypatch.setattr(verify, "compile", other)
    said = " ".join(fails("run", str(path), *tasks).split())
    assert "the emitted module gives another result than the run" in said
    assert invoke("run", str(path), *tasks, "--on-error", "propagate")["verified"] == 15  # by the executors alone


def test_what_is_wrong_is_said_in_a_line(folder: Path, tmp_path: Path):
    solvers = str(folder / "solvers.py")
    assert "no file" in fails("run", str(tmp_path / "none.py"))
    assert "give arcagi" in fails("run", solvers, "--data", str(tmp_path / "none"))
    assert "executor is 'fast'; choose one of auto" in fails("run", solvers, "--executor", "fast")
    (tmp_path / "bad.json").write_text("{")
    assert "is not JSON" in fails("run", solvers, "--data", str(tmp_path))


def test_a_damaged_task_is_a_flagged_sample(folder: Path, tmp_path: Path):
    for name, color in (("a", 3), ("b", 12)):
        task = {"train": [{"input": [[1, color]], "output": [[color, 1]]}], "test": []}
        (tmp_path / f"{name}.json").write_text(json.dumps(task))
    summary = invoke("run", str(folder / "solvers.py"), "--data", str(tmp_path), "--device", "cpu")
    assert (summary["samples"], summary["flagged"], summary["solved"]) == (2, 1, 1)
    result = CliRunner().invoke(app, ["programs", "run", str(folder / "solvers.py"), "--data", str(tmp_path), *CPU])
    said = " ".join(result.stderr.split())
    assert "1 of 2 samples are flagged, and not run; the first, of task b: " in said and "12" in said


def test_a_run_of_other_programs_is_not_gone_on_with(folder: Path, tmp_path: Path):
    solver = tmp_path / "solver.py"
    for name in ("vmirror", "hmirror"):
        solver.write_text(f"def solve_x(I):\n    O = {name}(I)\n    return O\n")
        arguments = ("run", str(solver), "--data", str(folder / "tasks"), *CPU, "--out", str(tmp_path / "run"))
        if name == "vmirror":
            invoke(*arguments)
    assert "cannot be resumed: the programs, the samples, on_error or pair_by_name are not" in fails(*arguments)
    assert "holds no run of programs (check the path" in fails("report", str(tmp_path / "nothing"))


@pytest.mark.parametrize("command", ["check", "compile", "run", "report", "generate"])
def test_help(command: str):
    result = CliRunner().invoke(app, ["programs", command, "--help"])
    assert result.exit_code == 0 and "--json" in result.stdout


def test_plan_shows_how_it_will_run(folder: Path):
    arguments = ["plan", "programs", "run", str(folder / "solvers.py"), "--data", str(folder / "tasks")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0 and "programs run" in result.stdout
