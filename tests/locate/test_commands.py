"""`brimful locate` as a user meets it."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from brimful.cli.app import app
from brimful.core.declare.report import Report
from brimful.locate import LocateResult

pytestmark = pytest.mark.usefixtures("one_thread")


def invoke(*arguments: Any) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["locate", *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def fails(*arguments: Any) -> str:
    result = CliRunner().invoke(app, ["locate", *map(str, arguments)])
    assert result.exit_code in (1, 2) and result.stdout == "" and "Traceback" not in result.stderr
    return " ".join(result.stderr.split())


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """`test_report.py` draws them."""
    monkeypatch.setattr(Report, "draw", lambda report, name, path: path)


def test_from_nothing_to_a_prediction(tmp_path: Path):
    made, model, found = tmp_path / "made.parquet", tmp_path / "model", tmp_path / "found.parquet"
    generated = invoke("generate", "--samples", 300, "--receivers", 5, "--out", made)
    assert (generated["recordings"], generated["receivers"]) == (300, 5)
    small = ("--network", "small", "--epochs", 2, "--device", "cpu")
    trained = invoke("train", "--dataset-ids", made, *small, "--out", model)
    again = invoke("train", "--dataset_ids", made, *small, "--out", model)  # done already
    assert again["rmse_m"] == trained["rmse_m"] and trained["parameters"] == 15_397
    assert {Path(path).name for path in trained["pictures"]} == {"map.png", "errors.png", "training.png"}
    judged = invoke("evaluate", model, "--samples", 20, "--device", "cpu", "--out", tmp_path / "judged")
    assert judged["rmse_over_posterior"] > 1 and judged["recordings"] == 20
    predicted = invoke("predict", model, "--data", made, "--device", "cpu", "--out", found)
    assert (predicted["located"], predicted["not_located"]) == (300, 0)
    assert pq.read_table(found).num_rows == 300
    assert invoke("report", model)["rmse_m"] == trained["rmse_m"]


def test_what_is_wrong_is_said(trained: LocateResult, folder: Path, tmp_path: Path):
    assert "name a .parquet file" in fails("generate", "--out", tmp_path / "x.csv")
    assert "there is no dataset 'nowhere'" in fails("train", "--dataset-ids", "nowhere", "--device", "cpu")
    assert "name a .parquet or a .csv file" in fails("predict", folder, "--data", "x.csv", "--out", tmp_path / "x.txt")
    assert "does not exist" in fails("predict", folder, "--data", "x.csv", "--out", tmp_path / "x.csv")
    assert "holds no trained model" in fails("evaluate", tmp_path, "--device", "cpu")


def test_a_plan_says_what_it_will_take(tmp_path: Path):
    made = tmp_path / "made.parquet"
    invoke("generate", "--samples", 100, "--out", made)
    options = ["plan", "locate", "train", "--dataset-ids", str(made), "--device", "cpu", "--json"]
    plan = json.loads(CliRunner().invoke(app, options).stdout)
    assert plan["tier"] == "device" and plan["predicted"] > 1_000_000
