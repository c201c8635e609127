"""A long table: one row an answer, with the student, its place in time, the question and the response.

Students and questions may be named by anything; their names are kept as text, as they are written (in a CSV, 007 is not
7). Students come in the order of their first row; a student's answers are sorted by the order column, or stay in the
order of the rows where there is none.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ...core.base.errors import ConfigError, InputError
from .raw import Raw


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of a long table's columns; None finds one of the usual names. `order` may be missing in the table."""

    student: str | None = None
    order: str | None = None
    question: str | None = None
    response: str | None = None


USUAL = {
    "student": ("student", "student_id", "user", "user_id", "learner", "learner_id", "uid"),
    "order": ("order", "order_id", "step", "position", "timestamp", "time", "date"),
    "question": ("question", "question_id", "item", "item_id", "problem_id", "skill_id", "skill", "concept"),
    "response": ("response", "category", "score", "correct", "answer", "rating"),
}

TIES, MISSING = ("error", "rows"), ("error", "drop")


def parse(source: Any, columns: Columns, ties: str = "error", missing: str = "error") -> Raw:
    """Reads a table.

    Args:
        source: a path to a CSV or Parquet file, or an Arrow or pandas table.
        columns: which is which.
        ties: two answers of one student at one time: "error", because the second would be predicted from the first
            (as where one answer is repeated for each of its skills); "rows" keeps the order of the rows.
        missing: rows in which something is missing: "error", or "drop".
    """
    if ties not in TIES or missing not in MISSING:
        raise ConfigError(
            f"ties={ties!r}, missing={missing!r}; choose of {', '.join(TIES)} and of {', '.join(MISSING)}"
        )
    name = str(source) if isinstance(source, str | Path) else "the table"
    table, found = _load(source, columns, name)
    if table.num_rows == 0:
        raise InputError(f"{name} has no rows; check the path")
    student, question = _texts(table[found["student"]]), _texts(table[found["question"]])
    value = _responses(table[found["response"]], found["response"], name)
    order = _order(table[found["order"]], found["order"], name) if "order" in found else None
    row = np.arange(table.num_rows)
    lacking = _nulls(student) | _nulls(question) | np.isnan(value)
    lacking |= np.zeros(len(row), bool) if order is None else np.isnan(order)
    if missing == "drop":
        row = row[~lacking]
        if not len(row):
            raise InputError(f"every row of {name} lacks something; check the columns {', '.join(found.values())}")
    elif lacking.any():
        at = int(np.flatnonzero(lacking)[0])
        raise InputError(
            f"{name}, row {at + 1}: the student, order, question or response is missing, as in {int(lacking.sum())} "
            f'rows in all; fill them, or leave them out with missing="drop"'
        )
    student, question = (
        student.take(pa.array(row)).dictionary_encode(),
        question.take(pa.array(row)).dictionary_encode(),
    )
    who = student.indices.to_numpy().astype(np.int64)
    when = row.astype(np.float64) if order is None else order[row]
    sort = np.lexsort((when, who))
    who, when, row = who[sort], when[sort], row[sort]
    same = (np.diff(who) == 0) & (np.diff(when) == 0)
    if ties == "error" and same.any():
        at = int(np.flatnonzero(same)[0])
        raise InputError(
            f"{name}, rows {row[at] + 1} and {row[at + 1] + 1}: student {student.dictionary[int(who[at])].as_py()!r} "
            f"answers twice at the same {found['order']}, as in {int(same.sum())} cases in all, and the second answer "
            f'would be predicted from the first; tell them apart, or keep the order of the rows with ties="rows"'
        )
    counts = np.bincount(who, minlength=len(student.dictionary))
    return Raw(
        names=np.array(question.dictionary.to_pylist(), dtype=str),
        code=question.indices.to_numpy().astype(np.int64)[sort],
        value=value[row],
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        ids=np.array(student.dictionary.to_pylist(), dtype=str),
        where=lambda step: f"{name}, row {row[step] + 1}",
    )


def _load(source: Any, columns: Columns, name: str) -> tuple[pa.Table, dict[str, str]]:
    try:
        if not isinstance(source, str | Path):
            table = pa.table(source) if hasattr(source, "__arrow_c_stream__") else pa.Table.from_pandas(source)
            return table, _find(table.column_names, columns, name)
        path = Path(source)
        if path.suffix.lower() in (".parquet", ".pq"):
            found = _find(pq.read_schema(path).names, columns, name)
            return pq.read_table(path, columns=list(dict.fromkeys(found.values()))), found
        with path.open("rb") as file:
            head = file.readline().removeprefix(b"\xef\xbb\xbf").decode("utf-8").strip("\r\n")
        delimiter = max(",;\t", key=head.count)
        found = _find([each.strip().strip('"') for each in head.split(delimiter)], columns, name)
        text = dict.fromkeys((found["student"], found["question"]), pa.string())
        table = pyarrow.csv.read_csv(
            path,
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=text, include_columns=list(dict.fromkeys(found.values())), strings_can_be_null=True
            ),
        )
        return table, found
    except (pa.ArrowException, UnicodeDecodeError, OSError, TypeError, KeyError) as error:
        raise InputError(f"{name} cannot be read as a table: {error}; is it the right file?") from error


def _find(names: list[str], columns: Columns, name: str) -> dict[str, str]:
    found = {}
    for what, usual in USUAL.items():
        told = getattr(columns, what)
        if told is not None and told not in names:
            raise InputError(f"{name} has no column {told!r}; it has {', '.join(names)}")
        match = told or next((each for each in usual if each in names), None)
        if match is not None:
            found[what] = match
        elif what != "order":
            raise InputError(
                f"{name} has no column called {' or '.join(usual)}, but {', '.join(names)}; name the {what} column "
                f"with Columns({what}=...)"
            )
    return found


def _texts(column: pa.ChunkedArray) -> pa.Array:
    column = column.combine_chunks()
    whole = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_floating(whole.type):  # pandas makes whole numbers with gaps into floats; 7.0 is question 7
        values = whole.to_numpy(zero_copy_only=False)
        if bool((np.isnan(values) | (values == np.floor(values))).all()):
            whole = pa.array(np.nan_to_num(values).astype(np.int64), mask=np.isnan(values))
    return pc.cast(whole, pa.string())


def _nulls(texts: pa.Array) -> np.ndarray:
    return texts.is_null().to_numpy(zero_copy_only=False)


def _responses(column: pa.ChunkedArray, what: str, name: str) -> np.ndarray:
    try:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            raise pa.ArrowInvalid(f"it holds texts, such as {column.drop_null()[0].as_py()!r}")
        kind = pa.int64() if pa.types.is_boolean(column.type) else column.type
        return pc.cast(pc.cast(column, kind), pa.float64()).to_numpy()
    except (pa.ArrowException, NotImplementedError, IndexError) as error:
        raise InputError(f"{name}: column {what!r} is {column.type}, and responses are numbers: {error}") from error


def _order(column: pa.ChunkedArray, what: str, name: str) -> np.ndarray:
    kind = column.type
    try:
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            moments = pc.cast(pc.cast(column, pa.timestamp("us"), safe=False), pa.int64())
            return pc.cast(moments, pa.float64(), safe=False).to_numpy()
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            raise pa.ArrowInvalid(f"it holds texts, such as {column.drop_null()[0].as_py()!r}")
        return pc.cast(column, pa.float64(), safe=False).to_numpy()
    except (pa.ArrowException, NotImplementedError, IndexError) as error:
        raise InputError(f"{name}: column {what!r} is {kind}; give numbers or dates to sort by: {error}") from error
