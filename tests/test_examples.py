"""The examples run, and give what they say."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import brimful

from .programs.helpers.own_operations import own_operations

FOLDER = Path(__file__).resolve().parents[1] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_example_is_tested_here():
    assert {path.stem for path in FOLDER.glob("*.py")} == {
        "bootstrap",
        "cholesky",
        "codebook",
        "digits",
        "kde",
        "locate",
        "parquet",
        "programs",
        "train_digits",
    }


def test_bootstrap_finds_the_slope_and_the_intercept(capsys: pytest.CaptureFixture[str]):
    result = load("bootstrap").main(resamples=500)
    assert result.ok.all()
    assert float(result.values["slope"].mean()) == pytest.approx(2.0, abs=0.2)
    assert float(result.values["slope"].std()) == pytest.approx(0.035, abs=0.02)
    assert "95% of resamples" in capsys.readouterr().out


def test_cholesky_saves_what_float64_can_and_flags_the_rest(capsys: pytest.CaptureFixture[str]):
    result = load("cholesky").main(count=2_000)
    assert [int(item) for item in (~result.ok).nonzero()[0]] == [123]
    assert (result.status == brimful.Status.RESCUED).any()
    assert "saved in float64" in capsys.readouterr().out


@pytest.mark.usefixtures("rendered_pictures")
def test_digits_are_filled_in_better_than_by_the_typical_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    errors = load("digits").main(tmp_path, images=60)
    assert errors["process"] < 0.95 * errors["typical image"]
    assert 0.8 < errors["inside two deviations"] < 1
    assert (tmp_path / "digits.png").stat().st_size > 10_000
    assert "converged" in capsys.readouterr().out


def test_codebook_learns_in_chunks(capsys: pytest.CaptureFixture[str]):
    lost = load("codebook").main(entries=3_000, steps=15)
    assert lost[-1] < 0.8 * lost[0]
    assert "all of it at once is over the budget" in capsys.readouterr().out


def test_kde_gives_the_density_and_its_score(capsys: pytest.CaptureFixture[str]):
    found = load("kde").main(points=20_000, queries=20)
    assert found["off the direct one"] < 1e-4
    assert found["two scores apart"] < 1e-4
    assert "predicted peak" in capsys.readouterr().out


def test_locate_is_better_than_least_squares_with_little_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    comparison = load("locate").main(tmp_path / "run", recordings=3_000, epochs=5)
    assert list(comparison.scores) == ["network", "least squares", "posterior"]
    assert comparison.ratio("rmse_m") < 1.6
    assert (tmp_path / "run" / "map.png").exists()
    assert "times the posterior's" in capsys.readouterr().out


def test_parquet_in_and_out_and_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    example = load("parquet")
    first = example.main(tmp_path, rows=5_000)
    again = example.main(tmp_path, rows=5_000)
    assert len(first.status) == 5_000 and first.ok.all()
    assert again.done == 0  # nothing was done twice
    assert "5,000 scores" in capsys.readouterr().out


def test_programs_solve_their_tasks_and_one_fails_where_there_is_no_square(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with own_operations():  # what the example registers is taken out again
        result = load("programs").main(tmp_path)
    assert result.summary()["solved"] == 4
    assert {failure.operation for failure in result.failures} == {"extract"}
    assert (tmp_path / "grids.png").exists()
    assert "solve_a416b8f3 solves a416b8f3, all 4 pairs" in capsys.readouterr().out


def test_train_digits_reads_most_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    result = load("train_digits").main(tmp_path / "run", epochs=10)
    assert result.epochs == 10
    assert result.best["accuracy"] > 0.93
    assert (tmp_path / "run" / "curves.png").stat().st_size > 10_000
    assert "predicted peak" in capsys.readouterr().out
