"""`brimful gpcm` as a user meets it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from brimful import gpcm
from brimful.cli.app import app
from brimful.core.declare.report import Report
from brimful.core.memory.plan import Plan
from brimful.gpcm.data.synthetic import write
from brimful.gpcm.result import METRICS, FoldTable
from brimful.gpcm.training import fit

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = ("--device", "cpu")
TINY = ("--epochs", "2", "--batch-size", "8", "--slots", "4", "--key-size", "4", "--value-size", "6", "--hidden", "5")
SUMMARY = {
    "compiling_seconds",
    *("dataset", "questions", "categories", "loss", "predict_by", "answers", *METRICS, "best_epoch", "epochs"),
    *("seconds", "predicted_peak_bytes", "observed_peak_bytes", "budget_bytes", "pictures"),
}
RECOVERY = {"alpha_recovery", "beta_recovery", "theta_recovery"}


def invoke(*arguments: str) -> dict[str, Any]:
    device = CPU if "report" not in arguments else ()
    result = CliRunner().invoke(app, [*arguments, *device, "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def fails(*arguments: str) -> str:
    """What is on standard error, when nothing is on standard output and there is no traceback."""
    result = CliRunner().invoke(app, [*arguments, *(CPU if "report" not in arguments else ())])
    assert result.exit_code in (1, 2)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.split())


@pytest.fixture(scope="module", autouse=True)
def no_pictures() -> Iterator[None]:
    """Files in place of pictures, which take most of the time; `test_report.py` draws them."""

    def touch(report: Report, name: str, path: Path) -> Path:
        path.touch()
        return path

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Report, "draw", touch)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of synthetic data."""
    return write(tmp_path_factory.mktemp("data") / "made", gpcm.synthetic_by_name("synthetic_OC_40_6_3"))


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    """A model of it."""
    out = folder.parent / "model"
    invoke("gpcm", "train", "--dataset", str(folder), "--out", str(out), "--int8", *TINY)
    return out


def test_training(folder: Path, model: Path):
    report = invoke("gpcm", "train", "--dataset", str(folder), "--out", str(model), "--int8", *TINY)  # done already
    assert set(report) == SUMMARY | RECOVERY | {"int8_bytes", "int8_qwk_loss"}
    assert (report["dataset"], report["questions"], report["categories"]) == ("synthetic_OC_40_6_3", 6, 3)
    assert report["epochs"] == 2 and report["auc"] is None
    found = gpcm.load(model)
    assert isinstance(found, gpcm.GPCMResult)
    assert report["qwk"] == found.scores.qwk and report["answers"] == found.held_out.students.steps
    assert [Path(path).name for path in report["pictures"]] == ["gpcm.png", "students.png"]
    names = {each.name for each in model.iterdir()}
    assert {"model.json", "weights.safetensors", "int8.safetensors", "items.parquet"} <= names
    assert pq.read_table(model / "items.parquet")["question"].to_pylist() == [str(place) for place in range(6)]
    changed = fails("gpcm", "train", "--dataset", str(folder), "--out", str(model), "--int8", *TINY, "--lr", "1")
    assert "cannot be resumed: lr was 0.005 and is now 1.0" in changed


def test_the_seeds_own_spelling():
    options = ["--model", "baseline", "--dataset", "synthetic_PC_20_4_3", "--epochs", "1", "--batch_size", "4"]
    more = ["--gradient_accumulation_steps", "2", "--num_workers", "4", "--use_parallel"]
    report = invoke("gpcm", "train", *options, *more)
    assert set(report) == SUMMARY | RECOVERY
    assert report["pictures"] == []


def test_training_is_shown_in_words():
    result = CliRunner().invoke(app, ["gpcm", "train", "--dataset", "synthetic_OC_20_4_2", *TINY, *CPU])
    assert result.exit_code == 0, result.stderr
    for words in ("accuracy", "within one", "qwk", "auc", "cross entropy", "alpha recovery", "best epoch"):
        assert words in result.stdout
    assert "epoch 2 of 2" in result.stderr


def test_cross_validation(tmp_path: Path):
    options = ["--dataset", "synthetic_OC_20_4_2", "--n-folds", "2", "--jobs", "1", *TINY]
    report = invoke("gpcm", "train", *options, "--out", str(tmp_path / "folds"))
    assert set(report["folds"]) == {"fold 1", "fold 2", "mean", "deviation", "test file"}
    assert set(report["folds"]["mean"]) == set(METRICS)
    assert report["qwk"] == report["folds"]["mean"]["qwk"]
    assert (report["parallel_folds"], report["best_fold"] in (1, 2)) == (1, True)
    words = str(FoldTable(cast(gpcm.CrossValidationResult, gpcm.load(tmp_path / "folds"))))
    assert "deviation" in words and "fold 2" in words


def test_only_a_probe_runs_the_model(monkeypatch: pytest.MonkeyPatch):
    calls = []
    batch_loss = fit.batch_loss
    monkeypatch.setattr(fit, "batch_loss", lambda *given, **more: calls.append(1) or batch_loss(*given, **more))
    arguments = ("plan", "gpcm", "train", "--dataset", "synthetic_OC_20_4_2")
    formula = Plan.from_dict(invoke(*arguments))
    assert not calls
    measured = Plan.from_dict(invoke(*arguments, "--probe"))
    assert calls and (formula.cost.source, measured.cost.source) == ("formula", "probe")
    assert 1 / 3 < formula.predicted / measured.predicted < 3


def test_the_plan():
    plan = Plan.from_dict(invoke("plan", "gpcm", "train", "--dataset", "synthetic_OC_20_4_2", "--budget", "100MB"))
    assert plan.work.startswith("gpcm train")
    assert plan.predicted <= plan.budget == 100_000_000
    assert plan.cost.source == "formula"
    invoke("plan", "gpcm", "train", "--dataset", "synthetic_OC_20_4_2", "--n-folds", "3")


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_predictions(folder: Path, model: Path, tmp_path: Path, ending: str):
    data, out = next(folder.glob("*_test.txt")), tmp_path / "new" / f"there.{ending}"
    report = invoke("gpcm", "predict", str(model), "--data", str(data), "--out", str(out))
    table = pq.read_table(out) if ending == "parquet" else pyarrow.csv.read_csv(out)
    assert (report["students"], report["rows"], report["out"]) == (8, table.num_rows, str(out))
    assert report["unknown_questions"] == 0
    found = gpcm.load(model).best
    assert report["qwk"] == pytest.approx(found.score(data).qwk)
    assert table["p_1"].to_pylist() == pytest.approx(found.predict(data)["p_1"].to_pylist(), rel=1e-5)
    after = tmp_path / f"after.{ending}"
    report = invoke("gpcm", "predict", str(model), "--data", str(data), "--out", str(after), "--next", "3")
    assert report["rows"] == 8 and "qwk" not in report


def test_predictions_of_a_table_with_unknown_questions(model: Path, tmp_path: Path):
    rows = {"pupil": ["a", "a", "b"], "when": [2, 1, 1], "item": ["0", "new", "5"], "mark": [2, 0, 1]}
    pyarrow.csv.write_csv(pa.table(rows), tmp_path / "long.csv")
    names = ["--student", "pupil", "--order", "when", "--question", "item", "--response", "mark"]
    out = str(tmp_path / "there.parquet")
    report = invoke("gpcm", "predict", str(model), "--data", str(tmp_path / "long.csv"), "--out", out, *names)
    assert report["unknown_questions"] == 1
    assert pq.read_table(out)["known"].to_pylist() == [False, True, True]


def test_the_report(model: Path, tmp_path: Path):
    report = invoke("gpcm", "report", str(model), "--out", str(tmp_path / "pictures"))
    assert set(report) == SUMMARY | RECOVERY | {"int8_bytes", "int8_qwk_loss"}
    assert report["pictures"] == [str(tmp_path / "pictures" / name) for name in ("gpcm.png", "students.png")]
    assert Path(report["pictures"][0]).exists()


def test_help_teaches():
    words = CliRunner().invoke(app, ["gpcm", "--help"]).stdout
    assert all(command in words for command in ("train", "predict", "report"))
    words = " ".join(CliRunner().invoke(app, ["gpcm", "train", "--help"]).stdout.split())
    for each in (
        "synthetic_OC",
        "--n-folds",
        "0 or 1 for a single split",
        "[cross_entropy|",
        "half focal",
        "[default:",
    ):
        assert each.replace("[cross_entropy|", "cross_entropy") in words
    words = " ".join(CliRunner().invoke(app, ["gpcm", "predict", "--help"]).stdout.split())
    assert "DIR" in words and "--next" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--dataset", "nowhere"], "nowhere is neither a file nor a folder, nor the name of synthetic data"),
        (["train", "--dataset", "synthetic_OC", "--loss", "l2"], "loss is 'l2'; choose one of combined, cross_entropy"),
        (["train", "--dataset", "synthetic_OC", "--epochs", "many"], "epochs is 'many'; it must be a whole number"),
        (["predict", "nowhere", "--data", "x", "--out", "y.parquet"], "nowhere holds no trained model (check the path"),
        (["predict", "nowhere", "--data", "x", "--out", "y.txt"], "name a .parquet or a .csv file for the predictions"),
        (["report", "nowhere"], "nowhere holds no trained model (check the path"),
    ],
)
def test_mistakes_are_reported_without_a_traceback(arguments: list[str], words: str):
    assert words in fails("gpcm", *arguments)


def test_mistakes_about_the_data(model: Path, tmp_path: Path):
    (tmp_path / "prose.txt").write_text("once upon a time\nthere was\n")
    (tmp_path / "short.txt").write_text("3\n1,2\n0,1\n")
    (tmp_path / "one.txt").write_text("2\n1,2\n0,1\n")
    (tmp_path / "empty.txt").write_text("0\n0\n")
    (tmp_path / "high.txt").write_text("2\n1,2\n0,7\n")
    for name, words in (
        ("prose.txt", "prose.txt"),
        ("short.txt", "2 question ids, but the student's length is given as 3"),
        ("one.txt", "1 student with answers to train on, and 2 are needed"),
        ("empty.txt", "0 students with answers to train on"),
    ):
        assert words in fails("gpcm", "train", "--dataset", str(tmp_path / name))
    out = str(tmp_path / "there.parquet")
    high = fails("gpcm", "predict", str(model), "--data", str(tmp_path / "high.txt"), "--out", out)
    assert "the response 7 is not one of the 3 categories (0 to 2)" in high
    asked = ["--data", str(tmp_path / "one.txt"), "--out", out, "--next", "Q99"]
    assert "the model has no question 'Q99'; the vocabulary begins with 0, 1" in fails(
        "gpcm", "predict", str(model), *asked
    )
    assert not (tmp_path / "there.parquet").exists()
