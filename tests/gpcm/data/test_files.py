"""Files of students: every form there is gives the same students, and what is wrong is named with its place."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from brimful import ConfigError, InputError
from brimful.gpcm.data.files import read, read_folder

from ...helpers.paths import ROOT

PLAIN = "3\n0,2,1\n1,0,3\n1\n2\n2\n"
ASSIST = ROOT.parent / "shared" / "data" / "assist2009"


def put(folder: Path, text: str | bytes, name: str = "data.txt") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def listed(students: Any) -> list[tuple[list[str], list[int]]]:
    """Each student's questions, by name, and responses."""
    names = np.append(students.questions, "?")
    cuts = zip(students.offsets[:-1], students.offsets[1:], strict=True)
    return [(names[students.question[a:b]].tolist(), students.response[a:b].tolist()) for a, b in cuts]


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace("\n", "\r\n"),
        "\ufeff" + PLAIN,
        "\n\n3\n\n0,2,1\n1,0,3\n\n1\n2\n2",
        "3,\n0,2,1,\n1,0,3,,\n1,\n2,\n2,\n",
        " 3\n0, 2 ,1\n1 ,0, 3\n1\n2\n2\n",
        "3\n0,2,1\n1.0,0.0,3.0\n1\n2\n2.0\n",
    ],
    ids=["plain", "windows", "mark", "blank lines", "trailing commas", "spaces", "whole floats"],
)
def test_three_lines_however_they_are_written(tmp_path: Path, text: str):
    found = read(put(tmp_path, text))
    assert listed(found) == [(["0", "2", "1"], [1, 0, 3]), (["2"], [2])]
    assert (found.categories, found.questions.tolist(), found.ids.tolist()) == (4, ["0", "1", "2"], ["0", "1"])


def test_ids_may_start_anywhere_and_have_gaps(tmp_path: Path):
    found = read(put(tmp_path, "3\n1,900000,10\n0,1,0\n"))
    assert found.questions.tolist() == ["1", "10", "900000"]
    assert found.question.tolist() == [0, 2, 1]


@pytest.mark.parametrize("text", ["0\n\n\n2\n0,1\n1,0\n0\n", "0\n2\n0,1\n1,0\n0\n\n\n", "0,\n2\n0,1\n1,0\n0"])
def test_students_without_steps(tmp_path: Path, text: str):
    found = read(put(tmp_path, text))
    assert found.lengths.tolist() == [0, 2, 0]
    assert listed(found)[1] == (["0", "1"], [1, 0])


def test_only_empty_students(tmp_path: Path):
    found = read(put(tmp_path, "0\n0\n"))
    assert (len(found), found.steps, found.categories, len(found.questions)) == (2, 0, 2, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3\n0,2\n1,0,3\n", "line 2: 2 question ids, but the student's length is given as 3"),
        ("3\n0,2,1\n\n1,0\n", "line 4: 2 responses, but the student's length is given as 3"),
        ("2\n0,1\n", "line 1: the file ends before"),
        ("2\n0,1\n1,0\n0,1\n1,0\n", "line 4: '0,1' should be the number of steps"),
        ("2\n0,x\n1,0\n", "line 2: 'x' among the question ids is not a number"),
        ("2\n0,1.5\n1,0\n", "line 2: '1.5' among the question ids is not a number"),
        ("2\n0,1\n1,\n\n", "line 3: 1 responses, but"),
        ("3\n0,1,2\n1,,0\n", "line 3: '' among the responses is not a number"),
        ("2\n0,-1\n1,0\n", "line 2, entry 2: question -1 is negative"),
        ("2\n0,1\n1,-1\n", "line 3, entry 2: the response -1 is negative"),
        ("1\n0\n0\n2\n0,1\n1,nan\n", "line 6, entry 2: the response nan is missing"),
        ("2\n0,1\n1,5000\n", "line 3, entry 2: the response 5000 would make 5001 categories"),
        ("2\n0,1\n0.5,2\n", "line 3, entry 2: the response 2 is more than 1"),
        ("", "is empty"),
        ("\n \n", "has no column called student"),
        ("hello, world\nthis is text\n", "has no column called student"),
    ],
)
def test_what_is_wrong_with_three_lines_is_named(tmp_path: Path, text: str, message: str):
    with pytest.raises(InputError) as error:
        read(put(tmp_path, text))
    assert message in str(error.value)
    assert "data.txt" in str(error.value)


@pytest.mark.parametrize("wrong", [b"\x00\xff\xfe\x80" * 9, b"\x89PNG\r\n\x1a\n\x00"])
def test_a_file_of_another_kind(tmp_path: Path, wrong: bytes):
    for name in ("data.txt", "data.parquet", "data.csv"):
        with pytest.raises(InputError, match="is it the right file"):
            read(put(tmp_path, wrong, name))


def test_paths_that_lead_nowhere(tmp_path: Path):
    with pytest.raises(InputError, match="does not exist"):
        read(tmp_path / "none.txt")
    with pytest.raises(InputError, match="is a folder; read it with read_folder"):
        read(tmp_path)
    with pytest.raises(InputError, match="is not a folder"):
        read_folder(tmp_path / "none")
    with pytest.raises(InputError, match="no file whose name ends in train"):
        read_folder(tmp_path)


def test_scores_become_categories(tmp_path: Path):
    path = put(tmp_path, "5\n0,1,2,3,4\n0.000,0.333,0.667,1.000,0.667\n")
    found = read(path)
    assert (found.response.tolist(), found.categories, found.partial_credit) == ([0, 1, 2, 3, 2], 4, True)
    assert read(path, categories=2).response.tolist() == [0, 0, 1, 1, 1]
    rough = put(tmp_path, "3\n0,1,2\n0.12,0.5,0.87\n", "rough.txt")
    with pytest.raises(InputError, match="give the number of categories to round them to"):
        read(rough)
    assert read(rough, categories=5).response.tolist() == [0, 2, 3]


def test_scores_that_happen_to_be_whole(tmp_path: Path):
    train = read(put(tmp_path, "3\n0,1,2\n0.5,0,1\n"))
    other = read(put(tmp_path, "2\n0,1\n1.000,0.000\n", "test.txt"), like=train)
    assert other.response.tolist() == [2, 0]
    assert read(put(tmp_path, "2\n0,1\n1,0\n", "whole.txt"), partial_credit=True, categories=3).response.tolist() == [
        2,
        0,
    ]


def test_unknown_questions_have_a_number_of_their_own(tmp_path: Path):
    train = read(put(tmp_path, PLAIN))
    other = read(put(tmp_path, "3\n1,7,2\n0,1,2\n", "test.txt"), like=train)
    assert other.question.tolist() == [1, 3, 2]
    assert (other.unknown, train.unknown) == (1, 0)
    assert other.questions is train.questions


def test_categories_of_training_are_kept(tmp_path: Path):
    train = read(put(tmp_path, "2\n0,1\n0,3\n"))
    assert train.categories == 4
    assert train.counts.tolist() == [1, 0, 0, 1]
    other = read(put(tmp_path, "2\n0,1\n1,2\n", "test.txt"), like=train)
    assert (other.categories, other.response.tolist()) == (4, [1, 2])
    with pytest.raises(
        InputError, match=r"response 4 is not one of the 4 categories \(0 to 3\); train with categories=5"
    ):
        read(put(tmp_path, "1\n0\n4\n", "more.txt"), like=train)
    assert read(put(tmp_path, PLAIN), categories=6).categories == 6
    with pytest.raises(ConfigError, match="categories is 1"):
        read(put(tmp_path, PLAIN), categories=1)


def test_a_folder_numbers_questions_and_students_through(tmp_path: Path):
    put(tmp_path, "2\n1,3\n0,1\n", "x_train.txt")
    put(tmp_path, "1\n4\n0\n", "x_test.txt")
    found = read_folder(tmp_path)
    assert found.test is not None
    assert found.name == tmp_path.name
    assert (found.train.questions.tolist(), found.test.unknown) == (["1", "3"], 1)
    assert (found.train.ids.tolist(), found.test.ids.tolist()) == (["0"], ["1"])
    put(tmp_path, '{"n_questions": 4, "n_cats": 3, "dataset_name": "x"}', "metadata.json")
    found = read_folder(tmp_path)
    assert found.test is not None
    assert found.train.questions.tolist() == ["1", "2", "3", "4"]  # 4 occurs, so ids start from 1
    assert (found.name, found.train.categories, found.test.question.tolist(), found.test.unknown) == ("x", 3, [3], 0)
    assert found.test.mask_unseen(found.train.question).unknown == 1  # declared, but not in training
    assert found.train.mask_unseen(found.train.question).unknown == 0


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ('{"n_questions": 2}', "is not one of the 2 that are declared"),
        ('{"n_questions": "many"}', "n_questions is 'many'"),
        ("[1]", "holds a list"),
        ("{", "is not JSON"),
        ('{"n_cats": 2}', "the response 2 is not one of the 2 categories"),
    ],
)
def test_metadata_that_does_not_fit(tmp_path: Path, metadata: str, message: str):
    put(tmp_path, "3\n0,1,9\n0,1,2\n", "train.txt")
    put(tmp_path, metadata, "metadata.json")
    with pytest.raises(InputError) as error:
        read_folder(tmp_path)
    assert message in str(error.value)


def test_ids_from_0_to_the_number_of_questions_are_one_too_many(tmp_path: Path):
    put(tmp_path, "2\n0,5\n0,1\n", "train.txt")
    put(tmp_path, '{"n_questions": 5}', "metadata.json")
    with pytest.raises(InputError, match="ids run from 0 to 5"):
        read_folder(tmp_path)


ROWS: dict[str, list[Any]] = {
    "student": ["ann", "bob", "ann", "cy", "ann"],
    "order": [3, 1, 1, 1, 2],
    "question": ["q9", "q10", "q10", "q9", "zz"],
    "response": [2, 0, 1, 1, 0],
}
LONG = [(["q10", "zz", "q9"], [1, 0, 2]), (["q10"], [0]), (["q9"], [1])]


@pytest.mark.parametrize("form", ["arrow", "pandas", "csv", "semicolons", "tabs", "parquet", "dates"])
def test_a_long_table_in_every_form(tmp_path: Path, form: str):
    table = pa.table(ROWS)
    if form == "dates":
        days = [datetime.datetime(2024, 1, day) for day in ROWS["order"]]
        table = table.set_column(1, "order", pa.array(days))
    separator = {"semicolons": ";", "tabs": "\t"}.get(form, ",")
    source: Any = table
    if form == "pandas":
        source = table.to_pandas()
    elif form == "parquet":
        source = tmp_path / "data.parquet"
        pq.write_table(table, source)
    elif form in ("csv", "semicolons", "tabs"):
        source = tmp_path / "data.csv"
        table.to_pandas().to_csv(source, sep=separator, index=False)
    found = read(source)
    assert listed(found) == LONG
    assert (found.ids.tolist(), found.questions.tolist(), found.categories) == (
        ["ann", "bob", "cy"],
        ["q10", "q9", "zz"],
        3,
    )


def test_names_are_texts_as_they_are_written(tmp_path: Path):
    path = put(tmp_path, "user_id,item_id,correct,time\n007,01,1,5\n7,1,0,6\n", "data.csv")
    found = read(path)
    assert (found.ids.tolist(), found.questions.tolist()) == (["007", "7"], ["01", "1"])
    gaps = pd.DataFrame({"student": [1.0, 2.0], "question": [7.0, 10.0], "response": [True, False]})
    assert read(gaps).questions.tolist() == ["7", "10"]


def test_columns_of_any_name():
    table = pa.table({"who": ["a", "a"], "what": [1, 2], "when": [2, 1], "points": [0, 1]})
    with pytest.raises(InputError, match=r"no column called student .*name the student column with student="):
        read(table)
    named: dict[str, Any] = {"student": "who", "order": "when", "question": "what", "response": "points"}
    assert listed(read(table, **named)) == [(["2", "1"], [1, 0])]
    with pytest.raises(InputError, match="no column 'wen'; it has who, what, when, points"):
        read(table, **{**named, "order": "wen"})


def test_without_an_order_the_rows_are_in_order():
    table = pa.table({"student": ["a", "b", "a"], "question": [3, 1, 2], "response": [0, 1, 1]})
    assert listed(read(table)) == [(["3", "2"], [0, 1]), (["1"], [1])]


def test_two_answers_at_one_time_are_refused_or_kept_as_they_come():
    table = pa.table(
        {"student": ["a", "b", "a", "a"], "order": [1, 1, 1, 0], "question": [3, 1, 2, 2], "response": [0, 1, 1, 1]}
    )
    with pytest.raises(InputError, match=r"rows 1 and 3: student 'a' answers twice at the same order, as in 1 cases"):
        read(table)
    assert listed(read(table, ties="rows"))[0] == (["2", "3", "2"], [1, 0, 1])
    with pytest.raises(ConfigError, match="ties is 'first'; choose one of error, rows"):
        read(table, ties="first")


@pytest.mark.parametrize("column", ["student", "order", "question", "response"])
def test_missing_entries_are_refused_or_dropped(column: str):
    rows = {name: list(values) for name, values in ROWS.items()}
    rows[column][0] = None
    with pytest.raises(InputError, match=r'row 1: .* is missing, as in 1 rows in all.*missing="drop"'):
        read(pa.table(rows))
    assert listed(read(pa.table(rows), missing="drop"))[-1] == LONG[-1]
    assert read(pa.table(rows), missing="drop").steps == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"response": [1, 0, -1, 0, 0]}, "row 3: the response -1 is negative"),
        ({"response": ["a", "b", "c", "d", "e"]}, "responses are numbers: it holds texts, such as 'a'"),
        ({"order": ["a", "b", "c", "d", "e"]}, "give numbers or dates, such as 2024-01-31, to sort by"),
        ({"response": [0, 1, 2, 9999, 1]}, "row 4: the response 9999 would make 10000 categories"),
        (
            {"response": [0.0, 0.5, float("nan"), 1.0, 0.0]},
            "row 3: the student, order, question or response is missing",
        ),
    ],
)
def test_what_is_wrong_with_a_table_is_named(change: dict[str, Any], message: str):
    with pytest.raises(InputError) as error:
        read(pa.table(ROWS | change))
    assert message in str(error.value)


ANSWERS = {"student": ["a", "b", "a"], "order": [2, 1, 1], "question": ["q", "q", "r"], "response": [1, 0, 2]}
IN_ORDER = [(["r", "q"], [2, 1]), (["q"], [0])]


@pytest.mark.parametrize("lazy", [False, True])
def test_frames_of_polars(lazy: bool):
    pl = pytest.importorskip("polars")
    frame = pl.LazyFrame(ANSWERS) if lazy else pl.DataFrame(ANSWERS)
    assert listed(read(frame)) == IN_ORDER
    dates = frame.with_columns(order=pl.Series(["2024-01-02", "2024-01-01", "2024-01-01"]))
    assert listed(read(dates)) == IN_ORDER


def test_numbers_of_another_byte_order():
    frame = pd.DataFrame(ANSWERS).astype({"order": ">f8", "response": ">i4"})
    assert listed(read(frame)) == IN_ORDER


@pytest.mark.parametrize("form", ["pandas", "arrow", "csv", "parquet"])
def test_two_columns_of_one_name_are_refused(tmp_path: Path, form: str):
    names = [*ANSWERS, "response"]
    table = pa.Table.from_arrays([pa.array(ANSWERS[name]) for name in names], names)
    source: Any = table
    if form == "pandas":
        source = pd.DataFrame(list(zip(*table.columns, strict=True)), columns=pd.Index(names))
    elif form == "csv":
        source = put(tmp_path, ",".join(names) + "\na,2,q,1,1\n", "answers.csv")
    elif form == "parquet":
        pq.write_table(table, source := tmp_path / "answers.parquet")
    with pytest.raises(InputError, match=r"columns (are named|called) 'response'.*rename"):
        read(source)


@pytest.mark.parametrize(
    "order",
    [
        ["2024-10-02", "2024-01-01", "2024-09-30"],
        ["2024-01-31T12:30:00.5", "2024-01-31", "2024-01-31 12:30"],
        ["2024-01-31T12:00:00Z", "2024-01-31T00:00:00Z", "2024-01-31T12:30:00+02:00"],
    ],
    ids=["days", "times", "offsets"],
)
def test_dates_that_are_texts_are_sorted_as_dates(tmp_path: Path, order: list[str]):
    table = pa.table(ANSWERS | {"order": order})
    assert listed(read(table)) == IN_ORDER
    assert listed(read(table.set_column(1, "order", pa.array(order, pa.large_string())))) == IN_ORDER
    table.to_pandas().to_csv(tmp_path / "answers.csv", index=False)
    assert listed(read(tmp_path / "answers.csv")) == IN_ORDER


def test_a_table_without_rows():
    with pytest.raises(InputError, match="has no rows"):
        read(pa.table(ROWS).slice(0, 0))


@pytest.mark.skipif(not ASSIST.exists(), reason=f"needs the ASSISTments data at {ASSIST}")
def test_assistments():
    found = read_folder(ASSIST)
    assert found.test is not None
    assert (len(found.train), len(found.test)) == (2921, 1230)
    assert (found.train.steps, found.test.steps) == (224_218, 101_419)
    assert (len(found.train.questions), found.train.categories, found.test.unknown) == (110, 2, 0)
    assert found.train.questions[0] == "1"
    assert found.train.segments(200).lengths.max() == 200


@pytest.mark.parametrize("source", [3, None, [1, 2], np.ones((2, 2)), {"student": [1]}])
def test_what_is_no_table_is_refused_with_a_sentence(source: Any):
    with pytest.raises(InputError, match=f"the data is a {type(source).__name__}; give a path"):
        read(source)
