"""`brimful gp` as a user meets it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from brimful import gp
from brimful.cli.app import app
from brimful.core.base.formatting import format_seconds
from brimful.core.memory.plan import Plan

from ..helpers.pictures import is_picture, is_rendered
from .helpers.small import fit, long, rows

X, Y = rows(0, 7, 9)
CPU = ("--device", "cpu")


def on_cpu(arguments: tuple[str, ...]) -> list[str]:
    """A command, on the CPU where it computes; a report does not."""
    return [*arguments, *(() if "report" in arguments else CPU)]


def invoke(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*on_cpu(arguments), "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def fails(*arguments: str) -> str:
    """What is on standard error, when nothing is on standard output and there is no traceback."""
    result = CliRunner().invoke(app, on_cpu(arguments))
    assert result.exit_code in (1, 2)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A long table of seven tasks."""
    path = tmp_path_factory.mktemp("long") / "long.parquet"
    pq.write_table(pa.table(long(X, Y, list("gfedcba"))), path)
    return path


@pytest.fixture(scope="module")
def models(table: Path) -> Path:
    """Their fits."""
    out = table.parent / "models"
    fit(table, out=out)
    return out


SUMMARY = {
    "compiling_seconds",
    *(
        "tasks",
        "kernel",
        "method",
        "batch_size",
        "observed_peak_bytes",
        "predicted_peak_bytes",
        "budget_bytes",
        "seconds",
    ),
    *(
        "time_per_task_seconds",
        "tasks_per_GB",
        "converged_share",
        "flagged",
        "mean_NLML",
        "mean_iterations",
        "pictures",
    ),
}


@pytest.mark.parametrize("own", [False, True])
def test_a_synthetic_fit(own: bool):
    report = invoke("gp", "fit", "--synthetic", "300", "--points", "15", *(["--own-inputs"] if own else []))
    assert set(report) == SUMMARY | {"held_out_MAE", "held_out_RMSE", "truth_MAE", "truth_RMSE"}
    assert report["tasks"] == 300
    assert ("shared eigenbasis" in report["method"]) is not own
    assert 0.95 < report["converged_share"] <= 1
    assert report["pictures"] == []
    assert 0 < report["truth_MAE"] < report["held_out_MAE"] < 0.4
    assert report["held_out_MAE"] < report["held_out_RMSE"]
    assert report["time_per_task_seconds"] == pytest.approx(report["seconds"] / 300)
    fitted = fit(gp.synthetic(300, 15, shared=not own))
    assert report["mean_NLML"] == pytest.approx(fitted.nlml.mean(), rel=1e-5)
    assert report["flagged"] == (~fitted.converged).sum()


def test_a_synthetic_fit_is_described_in_words():
    result = CliRunner().invoke(app, ["gp", "fit", "--synthetic", "30", "--points", "8", *CPU])
    assert result.exit_code == 0
    for words in ("tasks", "mean NLML", "converged", "%", "truth RMSE"):
        assert words in result.stdout
    assert "gp fit: finished" in result.stderr


def test_the_fit_of_a_table(table: Path, tmp_path: Path):
    out = tmp_path / "models"
    report = invoke("gp", "fit", "--data", str(table), "--out", str(out), "--kernel", "matern52", "--mean", "linear")
    assert set(report) == SUMMARY | {"leave_one_out_MAE", "leave_one_out_RMSE", "leave_one_out_log_density"}
    assert report["tasks"] == 7
    assert report["kernel"] == "matern52"
    assert report["pictures"] == [str(out / "gp.png")] and is_picture(out / "gp.png")
    fitted = gp.load(out)
    assert fitted.ids.to_pylist() == list("gfedcba")
    mean, _, density = fitted.loo()
    assert report["leave_one_out_MAE"] == pytest.approx(np.abs(mean - Y).mean(), rel=1e-4)
    assert report["leave_one_out_RMSE"] == pytest.approx(np.sqrt(np.square(mean - Y).mean()), rel=1e-4)
    assert report["leave_one_out_log_density"] == pytest.approx(density.mean(), rel=1e-4)
    np.testing.assert_allclose(fitted.nlml, fit(X, Y, kernel="matern52", mean="linear").nlml, rtol=1e-4)


def test_the_columns_of_a_table_can_be_named(tmp_path: Path):
    x, y = rows(1, 3, 8, 2)
    path = tmp_path / "odd.csv"
    columns = dict(zip(("who", "east", "north", "gold"), long(x, y, [1, 2, 3]).values(), strict=True))
    pyarrow.csv.write_csv(pa.table(columns | {"var": np.full(24, 0.05)}), path)
    options = ["--id", "who", "--x", "east,north", "--y", "gold", "--noise", "var", "--ard", "--priors", "none"]
    report = invoke("gp", "fit", "--data", str(path), *options, "--out", str(tmp_path / "models"))
    assert report["tasks"] == 3
    expected = fit(x, y, noise=0.05, ard=True, priors=None)
    np.testing.assert_allclose(gp.load(tmp_path / "models").nlml, expected.nlml, rtol=1e-4, atol=1e-3)


def test_leaving_one_out_of_tasks_that_are_not_equally_long(tmp_path: Path):
    counts = [9, 3, 6]
    table = pa.table(
        {
            "id": [task for task, count in enumerate(counts) for _ in range(count)],
            "x": np.concatenate([X[task, :count, 0] for task, count in enumerate(counts)]),
            "y": np.concatenate([Y[task, :count] for task, count in enumerate(counts)]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    report = invoke("gp", "fit", "--data", str(tmp_path / "a.parquet"))
    mean = fit([(X[task, :count], Y[task, :count]) for task, count in enumerate(counts)]).loo()[0]
    off = mean - Y[:3]
    assert report["leave_one_out_MAE"] == pytest.approx(np.nanmean(np.abs(off)), rel=1e-6)


def test_the_plan_of_a_fit():
    plan = Plan.from_dict(invoke("plan", "gp", "fit", "--synthetic", "100000", "--budget", "200MB"))
    assert plan.work == "gp fit"
    assert plan.items == 100_000
    assert plan.precision == "float64"
    assert "shared eigenbasis" in plan.strategy
    assert plan.predicted <= plan.budget == 200_000_000
    own = Plan.from_dict(invoke("plan", "gp", "fit", "--synthetic", "100", "--own-inputs"))
    assert {value.strategy: value.reason for value in own.rejected}[
        "shared eigenbasis"
    ] == "each task has inputs of its own"
    probed = Plan.from_dict(invoke("plan", "gp", "fit", "--synthetic", "2000", "--points", "10", "--probe"))
    assert probed.cost.source == "probe"


def test_the_plan_of_a_table_in_words(table: Path):
    result = CliRunner().invoke(app, ["plan", "gp", "fit", "--data", str(table), "--kernel", "periodic", *CPU])
    assert result.exit_code == 0, result.stderr
    assert "scoring to the optimum" in result.stdout
    assert "not chosen" in result.stdout


@pytest.mark.parametrize("observations", [False, True])
def test_predictions_to_a_file(models: Path, tmp_path: Path, observations: bool):
    out = tmp_path / "there.parquet"
    more = ["--observations"] if observations else []
    report = invoke("gp", "predict", str(models), "--at", "0:3:10", "--out", str(out), *more)
    assert (report["tasks"], report["points"], report["out"]) == (7, 10, str(out))
    table = pq.read_table(out)
    assert table.column_names == ["unique_id", "ds", "mean", "variance"]
    assert sorted(table["unique_id"].to_pylist()) == list("abcdefg")
    np.testing.assert_array_equal(np.stack(table["ds"].to_numpy()), np.tile(np.linspace(0, 3, 10), (7, 1)))
    mean, variance = gp.load(models).predict(np.linspace(0, 3, 10), noise=observations)
    position = [list("gfedcba").index(task) for task in table["unique_id"].to_pylist()]
    np.testing.assert_allclose(np.stack(table["mean"].to_numpy()), mean[position])
    np.testing.assert_allclose(np.stack(table["variance"].to_numpy()), variance[position])
    assert list(tmp_path.iterdir()) == [out]


def test_predictions_to_a_folder(models: Path, tmp_path: Path):
    invoke("gp", "predict", str(models), "--at", "0:3:4", "--out", str(tmp_path / "there"))
    table = pa.concat_tables([pq.read_table(value) for value in (tmp_path / "there").glob("shard-*.parquet")])
    table = table.sort_by("item")
    assert pq.read_table(tmp_path / "there" / "points.parquet").to_pydict() == {"ds": [0.0, 1.0, 2.0, 3.0]}
    np.testing.assert_allclose(np.stack(table["mean"].to_numpy()), gp.load(models).predict(np.linspace(0, 3, 4))[0])


def test_predictions_in_text_have_one_row_per_point(models: Path, tmp_path: Path):
    invoke("gp", "predict", str(models), "--at", "0:3:4", "--out", str(tmp_path / "there.csv"))
    table = pyarrow.csv.read_csv(tmp_path / "there.csv")
    assert table.column_names == ["unique_id", "ds", "mean", "variance"]
    assert sorted(table["unique_id"].to_pylist()) == [task for task in "abcdefg" for _ in range(4)]
    mean, variance = gp.load(models).predict(np.linspace(0, 3, 4))
    position = ["gfedcba".index(task) for task in table["unique_id"].to_pylist()[::4]]
    np.testing.assert_allclose(table["ds"].to_numpy(), np.tile(np.linspace(0, 3, 4), 7))
    np.testing.assert_allclose(table["mean"].to_numpy().reshape(7, 4), mean[position])
    np.testing.assert_allclose(table["variance"].to_numpy().reshape(7, 4), variance[position])
    assert [value.name for value in tmp_path.iterdir()] == ["there.csv"]


def test_what_failed_predictions_left_is_not_in_the_way(models: Path, tmp_path: Path):
    out, scratch = tmp_path / "there.parquet", tmp_path / "there.parquet.run"
    gp.load(models).predict_to(scratch, np.linspace(0, 1, 3), progress=False)
    assert invoke("gp", "predict", str(models), "--at", "0:1:3", "--out", str(out))["time_per_task_seconds"] is None
    gp.load(models).predict_to(scratch, np.linspace(0, 1, 3), progress=False)
    invoke("gp", "predict", str(models), "--at", "0:1:5", "--out", str(out))
    assert len(pq.read_table(out)["mean"][0]) == 5
    assert list(tmp_path.iterdir()) == [out]
    fit(X, Y, out=scratch)
    assert "cannot be resumed" in fails("gp", "predict", str(models), "--at", "0:1:5", "--out", str(out))


def test_points_are_matched_by_the_names_of_the_inputs(tmp_path: Path):
    x, y = rows(2, 3, 8, 2)
    columns = long(x, y, list("abc"))
    dates = pa.array((np.arange(24) % 8) * 86_400, pa.timestamp("s"))
    table = pa.table({"id": columns["unique_id"], "when": dates, "deep": columns["x_1"], "y": columns["y"]})
    fitted = fit(table, columns=gp.ColumnNames(x="when,deep"), out=tmp_path / "models")
    new = {"deep": np.array([0.5, 2.0]), "other": ["p", "q"], "when": pa.array([1, 3], pa.date32())}
    expected = fitted.predict(np.array([[1.0, 0.5], [3.0, 2.0]]))[0]

    def mean(points: dict[str, Any], name: str) -> np.ndarray:
        (pq.write_table if name.endswith("parquet") else pyarrow.csv.write_csv)(pa.table(points), tmp_path / name)
        out = ["--out", str(tmp_path / "there.parquet")]
        invoke("gp", "predict", str(tmp_path / "models"), "--at", str(tmp_path / name), *out)
        return np.stack(pq.read_table(tmp_path / "there.parquet")["mean"].to_numpy())

    np.testing.assert_allclose(mean(new, "a.parquet"), expected)
    np.testing.assert_allclose(mean(new, "a.csv"), expected)
    np.testing.assert_allclose(mean({"p": [1.0, 3.0], "q": new["deep"]}, "b.csv"), expected)
    pyarrow.csv.write_csv(pa.table({"deep": [1.0], "q": [1.0]}), tmp_path / "c.csv")
    out = ["--out", str(tmp_path / "more.parquet")]
    message = fails("gp", "predict", str(tmp_path / "models"), "--at", str(tmp_path / "c.csv"), *out)
    assert "it has no column 'when'; the models have the inputs when, deep" in " ".join(message.split())


def test_points_between_dates(tmp_path: Path):
    days = np.arange(9)
    dates = pa.array(days + 19_723, pa.int32()).cast(pa.date32())  # from 2024-01-01 on
    fitted = fit(pa.table({"id": ["a"] * 9, "when": dates, "y": Y[0]}), out=tmp_path / "models")
    out = ["--out", str(tmp_path / "there.parquet")]
    invoke("gp", "predict", str(tmp_path / "models"), "--at", "2024-01-01:2024-01-09:17", *out)
    mean = np.stack(pq.read_table(tmp_path / "there.parquet")["mean"].to_numpy())
    np.testing.assert_allclose(mean, fitted.predict(19_723 + np.linspace(0, 8, 17))[0], rtol=1e-5)


@pytest.mark.parametrize("kind", ["between", "whole", "npy", "parquet"])
def test_dates_in_are_dates_out(tmp_path: Path, kind: str):
    days = np.arange("2024-01-01", "2024-01-10", dtype="datetime64[D]")
    table = pa.table({"id": ["a"] * 9, "ds": pa.array(days), "y": np.sin(np.arange(9.0))})
    fit(table, out=tmp_path / "models")
    new = np.array(["2024-01-02", "2024-01-03T12:30", "2024-01-05"], dtype="datetime64[us]")
    np.save(tmp_path / "new.npy", new)
    pq.write_table(pa.table({"ds": new}), tmp_path / "new.parquet")
    at = {"between": "2024-01-01:2024-01-02:3", "whole": "2024-01-01:2024-01-03:3"}
    out = tmp_path / "there.csv"
    invoke(
        "gp",
        "predict",
        str(tmp_path / "models"),
        "--at",
        at.get(kind, str(tmp_path / f"new.{kind}")),
        "--out",
        str(out),
    )
    fitted = pyarrow.csv.read_csv(out)["ds"].to_numpy()
    halves = np.arange("2024-01-01", "2024-01-02T01", 12, dtype="datetime64[h]")
    expected = {"between": halves, "whole": days[:3]}.get(kind, new)
    assert fitted.tolist() == expected.astype(fitted.dtype).tolist()
    assert (out.read_text().splitlines()[1].split(",")[1] == "2024-01-01") == (kind == "whole")


@pytest.mark.parametrize("kind", ["npy", "csv", "parquet"])
def test_points_from_a_file(models: Path, tmp_path: Path, kind: str):
    points, path = np.array([0.1, 1.5, 2.0]), tmp_path / f"points.{kind}"
    if kind == "npy":
        np.save(path, points)
    elif kind == "csv":
        pyarrow.csv.write_csv(pa.table({"x": points}), path)
    else:
        pq.write_table(pa.table({"x": points}), path)
    invoke("gp", "predict", str(models), "--at", str(path), "--out", str(tmp_path / "there.parquet"))
    fitted = np.stack(pq.read_table(tmp_path / "there.parquet")["mean"].to_numpy())
    np.testing.assert_allclose(fitted, gp.load(models).predict(points)[0])


def test_predictions_are_all_that_is_kept(table: Path, tmp_path: Path):
    out = tmp_path / "models"
    invoke("gp", "fit", "--data", str(table), "--out", str(out), "--keep", "predictions", "--at", "0:3:5")
    kept = np.stack(gp.load(out).table()["predicted_mean"].to_numpy())
    np.testing.assert_allclose(kept, fit(X, Y).predict(np.linspace(0, 3, 5))[0], rtol=1e-4, atol=1e-5)
    assert is_picture(*invoke("gp", "report", str(out))["pictures"])
    message = fails("gp", "predict", str(out), "--at", "0:1:3", "--out", str(tmp_path / "there.parquet"))
    assert (
        "kept its parameters and not its data, which predictions need: run it again with --keep params+data" in message
    )


@pytest.mark.usefixtures("rendered_pictures")
def test_the_report(models: Path):
    report = invoke("gp", "report", str(models))
    fitted = gp.load(models)
    assert report["tasks"] == 7
    assert report["kernel"] == "rbf"
    assert report["converged_share"] == 1.0
    assert report["median_lengthscale"] == pytest.approx(np.median(fitted.params["lengthscale"]))
    assert report["mean_NLML"] == pytest.approx(fitted.nlml.mean())
    assert report["pictures"] == [str(models / "gp.png")]
    assert is_rendered(models / "gp.png")


@pytest.mark.usefixtures("rendered_pictures")
def test_the_picture_goes_where_it_is_asked_for(tmp_path: Path):
    x, y = rows(1, 2, 6)
    fit(x, y, task_ids=["$a$ of $\\b", "c"], out=tmp_path / "models")
    report = invoke("gp", "report", str(tmp_path / "models"), "--out", str(tmp_path / "deep" / "pictures"))
    assert report["pictures"] == [str(tmp_path / "deep" / "pictures" / "gp.png")]
    assert is_rendered(report["pictures"][0])
    assert not (tmp_path / "models" / "gp.png").exists()


@pytest.mark.parametrize("case", ["two dimensions", "odd tasks", "saved", "two bytes", "all empty"])
def test_the_report_of_anything(tmp_path: Path, case: str, request: pytest.FixtureRequest):
    out = tmp_path / "models"
    if case == "two dimensions":
        fit(*rows(2, 3, 8, 2), out=out)
    elif case == "odd tasks":
        y = Y.copy()
        y[0], y[1], y[2, 1:], y[3, 3] = np.nan, 1.0, np.nan, np.inf
        fit(X, y, out=out)
    elif case == "saved":
        fit(X[:2], Y[:2]).save(out)
    elif case == "two bytes":
        fit(X[0], Y, storage="float16", noise=0.1, out=out)
    else:
        fit(X, np.full_like(Y, np.nan), out=out)
    if case in ("odd tasks", "all empty"):
        request.getfixturevalue("rendered_pictures")
    assert is_picture(*invoke("gp", "report", str(out))["pictures"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit"], "give either --data FILE, a long table, or --synthetic N, a number of random tasks"),
        (["fit", "--synthetic", "3", "--data", "x.csv"], "give either --data FILE"),
        (["fit", "--synthetic", "0"], "synthetic is 0; it must be at least 1"),
        (["fit", "--data", "nowhere.parquet"], "nowhere.parquet does not exist; check the path"),
        (["fit", "--synthetic", "3", "--kernel", "rfb"], "names 'rfb'; there are rbf, matern12"),
        (["fit", "--synthetic", "3", "--mean", "cubic"], "mean is 'cubic'; choose one of zero, constant, linear"),
        (["fit", "--synthetic", "3", "--priors", "strong"], "priors is 'strong'; choose one of weak, none"),
        (["fit", "--synthetic", "3", "--keep", "predictions"], "keep='predictions' and at= go together"),
        (["fit", "--synthetic", "3", "--budget", "lots"], "budget 'lots' is not an amount of memory"),
        (["predict", "nowhere", "--at", "0:1:3", "--out", "x.parquet"], "nowhere holds no trained model (check"),
        (["report", "nowhere"], "nowhere holds no trained model (check the path"),
    ],
)
def test_mistakes_are_reported_without_a_traceback(arguments: list[str], words: str):
    assert words in " ".join(fails("gp", *arguments).split())


def test_mistakes_about_the_points(models: Path, tmp_path: Path):
    out = ["--out", str(tmp_path / "there.parquet")]
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    pq.write_table(pa.table({"x": ["a", "b"]}), tmp_path / "texts.parquet")
    np.save(tmp_path / "wide.npy", np.zeros((4, 3)))
    np.save(tmp_path / "none.npy", np.zeros((0, 1)))
    np.save(tmp_path / "complex.npy", np.zeros(4, complex))
    for at, words in (
        ("0:1:many", "--at is '0:1:many'; write start:stop:num, such as 0:1:100 or 2024-01-01:2024-12-31:50"),
        ("2024-01-01:2024-13-01:5", "--at is '2024-01-01:2024-13-01:5'; write start:stop:num"),
        ("0:2024-12-31:5", "--at is '0:2024-12-31:5'; write start:stop:num"),
        ("0:1:0", "--at is '0:1:0'; num must be at least 1, and start and stop finite"),
        ("0:inf:3", "--at is '0:inf:3'; num must be at least 1, and start and stop finite"),
        (str(tmp_path / "none.npy"), "none.npy cannot be read as points: it holds none"),
        ("0:1", "0:1 does not exist; give start:stop:num, or a .npy, .csv or .parquet file"),
        (str(tmp_path / "bad.npy"), "bad.npy cannot be read as points"),
        (str(tmp_path / "texts.parquet"), "texts.parquet cannot be read as points"),
        (str(tmp_path / "complex.npy"), "complex.npy cannot be read as points"),
        (str(tmp_path / "wide.npy"), "new points have shape (4, 3); give (m, 1)"),
    ):
        assert words in " ".join(fails("gp", "predict", str(models), "--at", at, *out).split())
    for more in ([], ["--out", str(tmp_path / "there.json")]):
        assert "name where the predictions go" in fails("gp", "predict", str(models), "--at", "0:1:3", *more)
    assert not (tmp_path / "there.parquet").exists()


def test_a_folder_with_another_fit_is_refused(table: Path, tmp_path: Path):
    options = ["--data", str(table), "--out", str(tmp_path / "models")]
    fit(table, out=tmp_path / "models")
    assert "cannot be resumed" in fails("gp", "fit", *options, "--kernel", "matern32")
    again = invoke("gp", "fit", *options)
    assert (again["tasks"], again["method"]) == (7, "already fitted")
    assert [again[key] for key in ("time_per_task_seconds", "observed_peak_bytes", "tasks_per_GB")] == [None] * 3
    assert str(fit(table, out=tmp_path / "models")).endswith(", already fitted")


def test_the_rate_of_a_resumed_fit_is_of_all_its_parts(tmp_path: Path):
    fit(X, Y, out=tmp_path / "models", batch_size=3)
    sorted((tmp_path / "models").glob("shard-*"))[-1].unlink()
    again = fit(X, Y, out=tmp_path / "models", batch_size=3)
    assert f"({format_seconds(again.seconds / len(again))} per task)" in str(again)


@pytest.mark.parametrize("name", ["none.csv", "none.parquet"])
def test_a_table_without_rows_is_reported(tmp_path: Path, name: str):
    empty = pa.table({"unique_id": pa.array([], pa.string()), "ds": np.zeros(0), "y": np.zeros(0)})
    (pq.write_table if name.endswith("parquet") else pyarrow.csv.write_csv)(empty, tmp_path / name)
    for command in (["gp", "fit"], ["plan", "gp", "fit"]):
        message = "".join(fails(*command, "--data", str(tmp_path / name)).split())
        assert f"{name}hasnorows;giveatablewithonerowperpoint" in message


def test_a_table_that_is_wrong_is_reported(tmp_path: Path):
    path = tmp_path / "long.parquet"
    pq.write_table(pa.table({"task": ["a", "a"], "x": [1.0, 2.0], "y": ["low", "high"]}), path)
    assert "column 'y' is string, and must hold numbers or dates" in " ".join(
        fails("gp", "fit", "--data", str(path)).split()
    )
