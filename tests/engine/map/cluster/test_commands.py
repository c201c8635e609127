"""Commands whose verb is map, on a cluster and over four CPU workers in the place of four GPUs: as in one process."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from brimful.cli.app import app

from ....programs.helpers.small import written, written_tasks

pytestmark = pytest.mark.soak

FOUR = "cpu,cpu,cpu,cpu"


def invoke(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def planned(out: Path) -> dict[str, Any]:
    """The first plan of a run."""
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    return next(event["plan"] for event in events if event["event"] == "planned")


def results(out: Path) -> pd.DataFrame:
    frames = [pd.read_parquet(path) for path in sorted(out.rglob("shard-*.parquet"))]
    return pd.concat(frames).sort_values("item").reset_index(drop=True)


@pytest.mark.parametrize("where", ["four worker processes", "a cluster"])
def test_gp_fit(cluster: str, tmp_path: Path, where: str):
    common = ("gp", "fit", "--synthetic", "600", "--points", "20", "--batch-size", "50", "--budget", "1GB")
    one = invoke(*common, "--device", "cpu", "--out", str(tmp_path / "one"))
    place = ("--device", FOUR) if where == "four worker processes" else ("--device", "cpu", "--cluster", cluster)
    other = invoke(*common, *place, "--out", str(tmp_path / "other"))
    assert one["batch_size"] == other["batch_size"] == 50
    devices = {"four worker processes": ["cpu"] * 4, "a cluster": ["3 nodes, 3 CPU workers: 1.00 GB each"]}
    assert planned(tmp_path / "other")["devices"] == devices[where]
    pd.testing.assert_frame_equal(results(tmp_path / "other"), results(tmp_path / "one"), check_exact=True)


@pytest.mark.parametrize("where", ["four worker processes", "a cluster"])
def test_programs_run(cluster: str, tmp_path: Path, where: str):
    written(tmp_path)
    written_tasks(tmp_path / "tasks")
    common = ("programs", "run", str(tmp_path / "solvers.py"), "--data", str(tmp_path / "tasks"), "--batch-size", "2")
    one = invoke(*common, "--device", "cpu", "--out", str(tmp_path / "one"))
    place = ("--workers", "4", "--device", "cpu") if where == "four worker processes" else ("--cluster", cluster)
    other = invoke(*common, *place, "--out", str(tmp_path / "other"))
    same = ("programs", "samples", "tasks", "solved", "outputs", "failed", "defaulted", "failed_by_category", "flagged")
    assert {name: one[name] for name in same} == {name: other[name] for name in same}
    pd.testing.assert_frame_equal(results(tmp_path / "other"), results(tmp_path / "one"), check_exact=True)
