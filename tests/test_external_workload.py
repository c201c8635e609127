"""A workload need not live here: a package that registers one by its entry point has commands, plans and runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from brimful.core.declare import registry

from .helpers.paths import ROOT

PACKAGE = ROOT / "tests" / "external_workload"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package was built and installed into, apart from everything else."""
    folder = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), str(PACKAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


SCRIPT = """
import json, sys
sys.path[:0] = sys.argv[1:3]
from brimful.cli.app import app
for line in json.loads(sys.argv[3]):
    app(line, standalone_mode=False)
    print("END", flush=True)
"""


def brimful(installed: Path, *lines: list[str]) -> list[str]:
    """What each of the lines prints, all in one process that the package is installed in."""
    command = [sys.executable, "-c", SCRIPT, str(installed), str(ROOT / "src"), json.dumps(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("END\n")


def test_it_has_its_commands_plans_and_runs(installed: Path, tmp_path: Path):
    out = tmp_path / "run"
    shown, planned, ran, listed, _ = brimful(
        installed,
        ["--help"],
        ["plan", "ridge", "fit", "--count", "50", "--device", "cpu"],
        ["ridge", "fit", "--n-tasks", "50", "--device", "cpu", "--out", str(out), "--json"],
        ["runs", str(tmp_path), "--json"],
    )
    assert "ridge" in shown and "gp" in shown
    assert "predicted peak" in planned
    summary = json.loads(ran)
    assert summary["tasks"] == 50 and 0 < summary["mean_error"] < 10
    assert {"seconds", "predicted_peak_bytes", "observed_peak_bytes"} <= set(summary)
    runs = json.loads(listed)["runs"]
    assert [(run["work"], run["state"], run["done"]) for run in runs] == [("ridge fit", "finished", 50)]


def test_without_it_nothing_is_lost():
    assert "ridge" not in registry.names()
