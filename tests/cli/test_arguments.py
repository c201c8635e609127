"""What is typed without its option's name, or left out: taken where there is no doubt, else an error of usage."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from brimful.cli.app import app


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def failure(*arguments: str) -> tuple[int, str]:
    result = invoke(*arguments)
    assert "Traceback" not in result.stderr and not result.stdout
    return result.exit_code, result.stderr


@pytest.mark.parametrize(
    ("command", "option"),
    [("gpcm train", "--dataset"), ("wpo train", "--data"), ("locate train", "--dataset-ids"), ("gp fit", "--data")],
)
def test_data_may_be_given_without_the_name_of_its_option(command: str, option: str, tmp_path: Path) -> None:
    file = str(tmp_path / "missing.csv")
    named, unnamed = failure(*command.split(), option, file), failure(*command.split(), file)
    assert named == unnamed and named[0] == 1 and "missing.csv" in named[1]
    code, message = failure(*command.split(), file, option, "other.csv")
    assert code == 2 and f"{option} 'other.csv' are both given; give one of them" in message


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("gpcm train", "--dataset is missing: a folder with train and test files"),
        ("wpo train", "--data is missing: 8gaussians"),
        ("locate train", "--dataset-ids is missing: datasets, separated by commas"),
        ("gp fit", "give either --data FILE, a long table, or --synthetic N, a number of random tasks"),
        ("gp predict folder", "--at is missing: where to predict"),
        ("gpcm predict folder", "--data is missing: students"),
        ("plan gpcm train", "--dataset is missing"),
        ("jobs submit gpcm train", "--dataset is missing"),
    ],
)
def test_an_option_that_is_left_out_is_named_with_what_it_takes(line: str, sentence: str) -> None:
    code, message = failure(*line.split())
    assert code == 2 and sentence in message


def test_help_shows_the_argument_and_what_is_required() -> None:
    shown = " ".join(invoke("gpcm", "train", "-h").stdout.split())
    assert "[OPTIONS] [DATASET]" in shown and "the same as --dataset" in shown
    assert "categories) [required]" in shown
