"""A long table: one row per answer, with the student, its position in time, the question and the response.

Students and questions may have any names, which are read as text, as they are written (in a CSV, 007 is not 7).
Students come in the order of their first row; a student's answers are sorted by the order column, or stay in the order
of the rows where there is none.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ...core.base.arrow import whole
from ...core.base.errors import InputError
from ...core.declare.config import option
from ...data.dates import is_moment, is_text, microseconds, parsed
from ...data.tables import as_table, is_table
from .encode import ParsedSteps

USUAL = {
    "student": ("student", "student_id", "user", "user_id", "learner", "learner_id", "uid"),
    "order": ("order", "order_id", "step", "position", "timestamp", "time", "date"),
    "question": ("question", "question_id", "item", "item_id", "problem_id", "skill_id", "skill", "concept"),
    "response": ("response", "category", "score", "correct", "answer", "rating"),
}

TIES, MISSING = ("error", "rows"), ("error", "drop")


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a long table is read: its columns, by default those with the usual names, and what to do with odd rows. A
    table may lack `order`.

    Two answers of one student at one time are an error by default, because the second would be predicted from the first
    (as where one answer is repeated for each of its skills); ties="rows" uses the order of the rows.
    """

    ties: str = option("error", help="two answers of one student at one time", choices=TIES)
    missing: str = option("error", help="rows of a table in which something is missing", choices=MISSING)
    student: str | None = option(None, help="column of the student; by default one of the usual names")
    order: str | None = option(None, help="column of the time or position of an answer")
    question: str | None = option(None, help="column of the question")
    response: str | None = option(None, help="column of the response")


def parse(source: Any, options: TableOptions) -> ParsedSteps:
    """Reads a table: a path to a CSV or Parquet file, an Arrow table, or a frame of pandas or polars."""
    name = str(source) if isinstance(source, str | Path) else "the table"
    table, used = _load(source, options, name)
    if table.num_rows == 0:
        raise InputError(f"{name} has no rows; check the path")
    row = np.arange(table.num_rows)
    student, question = _texts(table[used["student"]]), _texts(table[used["question"]])
    value = _numbers(table[used["response"]], f"{name}: column {used['response']!r}", "responses are numbers")
    time = row.astype(np.float64)
    if "order" in used:
        time = _times(table[used["order"]], f"{name}: column {used['order']!r}")
    nulls = [texts.is_null().to_numpy(zero_copy_only=False) for texts in (student, question)]
    incomplete = nulls[0] | nulls[1] | np.isnan(value) | np.isnan(time)
    if options.missing == "error" and incomplete.any():
        raise InputError(
            f"{name}, row {int(np.flatnonzero(incomplete)[0]) + 1}: the student, order, question or response is "
            f'missing, as in {int(incomplete.sum())} rows in all; fill them, or leave them out with missing="drop"'
        )
    row = row[~incomplete]
    if not len(row):
        raise InputError(f"every row of {name} lacks something; check the columns {', '.join(used.values())}")
    student, question = (texts.take(pa.array(row)).dictionary_encode() for texts in (student, question))
    who, when = student.indices.to_numpy().astype(np.int64), time[row]
    order = np.lexsort((when, who))
    who, when, row = who[order], when[order], row[order]
    tied = np.flatnonzero((np.diff(who) == 0) & (np.diff(when) == 0))
    if options.ties == "error" and len(tied):
        first, second = row[tied[0]] + 1, row[tied[0] + 1] + 1
        raise InputError(
            f"{name}, rows {first} and {second}: student {student.dictionary[int(who[tied[0]])].as_py()!r} answers "
            f"twice at the same {used['order']}, as in {len(tied)} cases in all, and the second would be predicted "
            f'from the first; make them distinct, or use the order of the rows with ties="rows"'
        )
    counts = np.bincount(who, minlength=len(student.dictionary))
    return ParsedSteps(
        names=np.array(question.dictionary.to_pylist(), dtype=str),
        code=question.indices.to_numpy().astype(np.int64)[order],
        value=value[row],
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        ids=np.array(student.dictionary.to_pylist(), dtype=str),
        locate=lambda step: f"{name}, row {row[step] + 1}",
    )


def _load(source: Any, options: TableOptions, name: str) -> tuple[pa.Table, dict[str, str]]:
    try:
        if not isinstance(source, str | Path):
            if not is_table(source):
                raise InputError(
                    f"the data is a {type(source).__name__}; give a path, an Arrow, pandas or polars table, or students"
                )
            table = as_table(source)
            return table, _find_columns(table.column_names, options, name)
        path = Path(source)
        if path.suffix.lower() in (".parquet", ".pq"):
            used = _find_columns(pq.read_schema(path).names, options, name)
            return pq.read_table(path, columns=list(dict.fromkeys(used.values()))), used
        with path.open("rb") as file:
            head = file.readline().removeprefix(b"\xef\xbb\xbf").decode("utf-8").strip("\r\n")
        delimiter = max(",;\t", key=head.count)
        used = _find_columns([cell.strip().strip('"') for cell in head.split(delimiter)], options, name)
        convert = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys((used["student"], used["question"]), pa.string()),
            include_columns=list(dict.fromkeys(used.values())),
            strings_can_be_null=True,
        )
        parse_options = pyarrow.csv.ParseOptions(delimiter=delimiter)
        return pyarrow.csv.read_csv(path, parse_options=parse_options, convert_options=convert), used
    except (pa.ArrowException, UnicodeDecodeError, OSError, TypeError, KeyError) as error:
        raise InputError(f"{name} cannot be read as a table: {error}; is it the right file?") from error


def _find_columns(names: list[str], options: TableOptions, name: str) -> dict[str, str]:
    used = {}
    for role, usual in USUAL.items():
        given = getattr(options, role)
        if given is not None and given not in names:
            raise InputError(f"{name} has no column {given!r}; it has {', '.join(names)}")
        match = given or next((candidate for candidate in usual if candidate in names), None)
        if match is not None and names.count(match) > 1:
            raise InputError(f"{name} has {names.count(match)} columns called {match!r}; rename all but one")
        if match is not None:
            used[role] = match
        elif role != "order":
            raise InputError(
                f"{name} has no column called {' or '.join(usual)}, but {', '.join(names)}; name the {role} column "
                f"with {role}=..."
            )
    return used


def _texts(column: pa.ChunkedArray) -> pa.Array:
    array = whole(column)
    if pa.types.is_floating(array.type):  # pandas makes whole numbers with gaps into floats; 7.0 is question 7
        values = array.to_numpy(zero_copy_only=False)
        if bool((np.isnan(values) | (values == np.floor(values))).all()):
            array = pa.array(np.nan_to_num(values).astype(np.int64), mask=np.isnan(values))
    return pc.cast(array, pa.string())


def _times(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """What answers are sorted by: numbers, dates, or texts that are dates."""
    advice = "give numbers or dates, such as 2024-01-31, to sort by"
    if is_text(column.type):
        try:
            column = parsed(column)
        except pa.ArrowException as error:
            raise InputError(f"{name} holds texts that are not dates: {error}; {advice}") from error
    return _numbers(column, name, advice)


def _numbers(column: pa.ChunkedArray, name: str, advice: str) -> np.ndarray:
    """A column of numbers, truth values or dates as floats."""
    dtype = column.type
    try:
        if is_text(dtype):
            raise pa.ArrowInvalid(f"it holds texts, such as {column.drop_null()[0].as_py()!r}")
        if is_moment(dtype):
            column = microseconds(column)
        elif pa.types.is_boolean(dtype):
            column = pc.cast(column, pa.int64())
        return pc.cast(column, pa.float64(), safe=False).to_numpy()
    except (pa.ArrowException, NotImplementedError, IndexError) as error:
        raise InputError(f"{name} is {dtype}, and {advice}: {error}") from error
