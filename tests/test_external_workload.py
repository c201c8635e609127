"""A workload need not live here: a package that registers one by its entry point has commands, plans and runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

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


def brimful(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = f"import sys; sys.path[:0] = [{str(installed)!r}, {str(ROOT / 'src')!r}]; "
    script = path + "from brimful.cli.app import main; main()"
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False, timeout=300
    )


def test_it_has_its_commands_plans_and_runs(installed: Path, tmp_path: Path):
    shown = brimful(installed, "--help").stdout
    assert "ridge" in shown and "gp" in shown
    planned = brimful(installed, "plan", "ridge", "fit", "--count", "50", "--device", "cpu")
    assert "predicted peak" in planned.stdout, planned.stderr
    out = tmp_path / "run"
    ran = brimful(installed, "ridge", "fit", "--n-tasks", "50", "--device", "cpu", "--out", str(out), "--json")
    summary = json.loads(ran.stdout)
    assert summary["tasks"] == 50 and 0 < summary["mean_error"] < 10
    assert {"seconds", "predicted_peak_bytes", "observed_peak_bytes"} <= set(summary)
    runs = json.loads(brimful(installed, "runs", str(tmp_path), "--json").stdout)["runs"]
    assert [(run["work"], run["state"], run["done"]) for run in runs] == [("ridge fit", "finished", 50)]


def test_without_it_nothing_is_lost():
    assert (
        "ridge"
        not in subprocess.run(
            [sys.executable, "-m", "brimful", "--help"], capture_output=True, text=True, check=True, timeout=300
        ).stdout
    )
