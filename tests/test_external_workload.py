"""A workload need not live here: a package that registers one by its entry point has commands, plans and runs."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.build import build_wheel

import brimful
from brimful import InputError
from brimful.core.declare import registry

from .helpers.forking import completed, run_text
from .helpers.paths import ROOT

PACKAGE = ROOT / "tests" / "external_workload"


def install(folder: Path) -> None:
    """Builds the package, and unpacks it into a folder, which is all that installing it is."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(PACKAGE)
        wheel = build_wheel(str(folder))
    with zipfile.ZipFile(folder / wheel) as file:
        file.extractall(folder)


def install_by_pip(folder: Path) -> None:
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), str(PACKAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=[install, pytest.param(install_by_pip, marks=pytest.mark.soak)])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package was built and installed into, apart from everything else."""
    folder = tmp_path_factory.mktemp("installed")
    request.param(folder)
    return folder


SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from brimful.cli.app import app
for line in json.loads(sys.argv[2]):
    app(line, standalone_mode=False)
    print("END", flush=True)
"""


def run_lines(installed: Path, *lines: list[str]) -> list[str]:
    """What each of the lines prints, all in one process that the package is installed in."""
    done = completed(run_text, SCRIPT, str(installed), json.dumps(lines))
    assert done.returncode == 0, done.stderr
    return done.stdout.split("END\n")


def test_it_has_its_commands_plans_and_runs(installed: Path, tmp_path: Path):
    out = tmp_path / "run"
    shown, planned, ran, listed, opened, _ = run_lines(
        installed,
        ["--help"],
        ["plan", "ridge", "fit", "--count", "50", "--device", "cpu"],
        ["ridge", "fit", "--n-tasks", "50", "--device", "cpu", "--out", str(out), "--json"],
        ["runs", str(tmp_path), "--json"],
        ["open", str(out), "--json"],
    )
    assert "ridge" in shown and "gp" in shown
    assert "predicted peak" in planned
    summary = json.loads(ran)
    assert summary["tasks"] == 50 and 0 < summary["mean_error"] < 10
    assert {"seconds", "predicted_peak_bytes", "observed_peak_bytes"} <= set(summary)
    runs = json.loads(listed)["runs"]
    assert [(run["work"], run["state"], run["done"]) for run in runs] == [("ridge fit", "finished", 50)]
    assert json.loads(opened) == summary
    with pytest.raises(InputError, match="'ridge', a workload that is not installed here"):
        brimful.open(out)


def test_without_it_nothing_is_lost():
    assert "ridge" not in registry.names()
