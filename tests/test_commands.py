"""Every command of every workload: it offers only what it honors, and its summary has the keys that all have."""

import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from brimful.core.declare import registry
from brimful.core.declare.config import build, describe
from brimful.core.declare.report import Report
from brimful.core.runs.context import RunContext
from brimful.engine.map.result import MapResult
from brimful.engine.train.result import TrainResult
from brimful.gp.result import Fit
from brimful.gpcm.result import CrossValidationResult, GPCMResult
from brimful.locate.result import LocateResult
from brimful.nets.result import NetsResult
from brimful.programs.result import ProgramResult
from brimful.wpo.result import WPOResult

LOOKS_UP_COLUMNS = "gpcm/data/long_table.py"  # by names that are in a variable
KEYS = {"predicted_peak_bytes", "observed_peak_bytes", "seconds"}
TINY: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("data", "import"): [{"source": "points.csv", "dataset": "commands", "columns": "x,y"}],
    ("data", "list"): [{}],
    ("data", "show"): [{"name": "commands"}],
    ("data", "verify"): [{"name": "commands"}],
    ("data", "chunks"): [{"name": "commands", "anew": True}],
    ("data", "bench"): [{"name": "commands", "connections": 1}],
    ("data", "delete"): [{"name": "commands", "yes": True}],
    ("gp", "fit"): [
        {"synthetic": 3, "points": 8, "steps": 5, "out": "gp"},
        {"data": "points.csv", "steps": 5, "device": "cpu"},
    ],
    ("gp", "predict"): [{"directory": "gp", "at": "0:1:3", "out": "gp.csv", "device": "cpu"}],
    ("gp", "report"): [{"directory": "gp", "out": "report"}],
    ("gpcm", "train"): [
        {"dataset": "answers.csv", "epochs": 1, "batch_size": 8, "out": "gpcm", "device": "cpu"},
        {"dataset": "synthetic_OC_20_5_3", "epochs": 1, "n_folds": 2, "jobs": 1, "device": "cpu"},
    ],
    ("gpcm", "predict"): [{"directory": "gpcm", "data": "answers.csv", "out": "gpcm.csv", "device": "cpu"}],
    ("gpcm", "report"): [{"directory": "gpcm", "out": "report"}],
    ("locate", "generate"): [{"samples": 60, "out": "made.parquet"}, {"samples": 10, "name": "locate-ten"}],
    ("locate", "import"): [{"file": "made.parquet", "name": "locate-sixty"}],
    ("locate", "train"): [
        {"dataset_ids": "made.parquet", "network": "small", "epochs": 2, "batch_size": 16, "out": "locate"},
        {"dataset": "made.parquet", "epochs": 1, "accelerator": "cpu", "width": 8, "layers": 1},
    ],
    ("locate", "evaluate"): [{"directory": "locate", "samples": 4, "device": "cpu"}],
    ("locate", "predict"): [{"directory": "locate", "data": "made.parquet", "out": "found.csv", "device": "cpu"}],
    ("locate", "report"): [{"directory": "locate", "out": "report"}],
    ("nets", "train"): [{"count": 4, "steps": 2, "out": "nets", "device": "cpu"}],
    ("programs", "check"): [{"file": "solvers.py", "vocabulary": "auto"}],
    ("programs", "compile"): [
        {"file": "solvers.py", "vocabulary": "arc-dsl", "out": "compiled"},
        {"file": "solvers.py", "data": "tasks", "split": "all", "samples": 2, "out": "compiled", "device": "cpu"},
    ],
    ("programs", "explain"): [
        {"file": "solvers.py", "data": "tasks", "split": "all", "samples": 2, "device": "cpu"},
        {"file": "solvers.py", "samples": 0},
    ],
    ("programs", "run"): [
        {"file": "solvers.py", "data": "tasks", "split": "all", "verify": 1, "out": "programs", "device": "cpu"}
    ],
    ("programs", "report"): [{"directory": "programs", "out": "report"}],
    ("programs", "generate"): [{"operations": 3, "seed": 1, "out": "made.py"}, {"file": "solvers.py", "operations": 3}],
    ("wpo", "train"): [
        {"data": "moons", "samples": 40, "centers": 8, "steps": 2, "batch_size": 20, "out": "wpo", "device": "cpu"},
        {"data": "moons", "samples": 40, "centers": 8, "steps": 2, "batch_size": 20, "factor": "lowrank"},
    ],
    ("wpo", "sample"): [{"directory": "wpo", "n": 5, "device": "cpu"}],
    ("wpo", "report"): [{"directory": "wpo", "out": "report"}],
}


class Recorder:
    """Records which options are read by their name. Code that passes all of them on reads none, nor do the methods
    that a dataclass makes and its checks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: set[str] = set()
        modules = [module for name, module in sys.modules.items() if name.startswith("brimful.")]
        kinds = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}

        def getattribute(config: Any, name: str) -> Any:
            code = sys._getframe(1).f_code
            by_name = name in code.co_names or code.co_filename.endswith(LOOKS_UP_COLUMNS)
            if by_name and code.co_filename != "<string>" and code.co_name != "__post_init__":
                self.read.add(name)
            return object.__getattribute__(config, name)

        for kind in kinds:
            if is_dataclass(kind) and any("option" in field.metadata for field in fields(kind)):
                monkeypatch.setattr(kind, "__getattribute__", getattribute, raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("commands")
    rows = [f"{task},{x / 8},{(task + x) % 5}" for task in range(3) for x in range(8)]
    (path / "points.csv").write_text("\n".join(["id,x,y", *rows]))
    rows = [f"s{student},{step},q{step},{(student + step) % 3}" for student in range(20) for step in range(5)]
    (path / "solvers.py").write_text("def solve_a(I):\n    x1 = vmirror(I)\n    return x1\n")
    (path / "tasks").mkdir()
    (path / "tasks" / "a.json").write_text('{"train": [{"input": [[1, 2]], "output": [[2, 1]]}], "test": []}')
    (path / "answers.csv").write_text("\n".join(["student,order,question,response", *rows]))
    return path


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("workload", list(registry.WORKLOADS))
def test_every_option_is_read_and_every_summary_has_its_keys(
    workload: str, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(Report, "draw", lambda report, name, path: path)  # pictures have tests of their own
    commands, unread = registry.load(workload).commands, {}
    recorder = Recorder(monkeypatch)
    for command in commands:
        recorder.read.clear()
        for options in TINY[workload, command.name]:
            summary = command.run(build(command.config, options), RunContext())
            assert set(summary) >= KEYS, command.name
            assert summary["seconds"] > 0
            if command.plan is not None:
                command.plan(build(command.config, options), False)
        unread[command.name] = {info.name for info in describe(command.config)} - recorder.read
    assert unread == {command.name: set() for command in commands}


@pytest.mark.parametrize(
    "result",
    [
        Fit,
        GPCMResult,
        CrossValidationResult,
        LocateResult,
        NetsResult,
        ProgramResult,
        WPOResult,
        MapResult,
        TrainResult,
    ],
)
def test_every_result_has_a_plan_and_what_was_measured(result: type):
    assert {"plan", "observed", "seconds"} <= {field.name for field in fields(result)}
    assert hasattr(result, "predicted")
    assert hasattr(result, "summary")
