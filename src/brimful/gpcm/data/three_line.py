"""The three-line format: for each student its number of steps, its questions, its responses, separated by commas.

Trailing commas, blank lines, spaces, Windows line ends and a byte order mark are ignored. A student of length 0 has no
other lines (blank ones do not count). Students have no names here: they are numbered in the order of the file.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from ...core.base.errors import InputError
from ...core.runs.files import write_atomic
from .encode import ParsedSteps
from .students import Students

pc: Any = pyarrow.compute  # its functions are made on import, so type checkers do not see them
Line = tuple[int, str]


def is_three_line(path: Path) -> bool:
    """Whether the first line that is not blank is one whole number."""
    with path.open("rb") as file:
        for line in file:
            if text := line.removeprefix(b"\xef\xbb\xbf").strip(b", \t\r\n"):
                return text.isdigit()
    return False


def parse(path: Path, first: int = 0) -> ParsedSteps:
    """Reads a file; students are numbered from `first`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path} cannot be read as text: {error}; is it the right file?") from error
    stripped = ((number, line.strip(", \t\r")) for number, line in enumerate(text.splitlines(), 1))
    lines = iter([(number, line) for number, line in stripped if line])
    lengths: list[int] = []
    asked: list[Line] = []
    answered: list[Line] = []
    for number, line in lines:
        lengths.append(_length(path, number, line))
        if lengths[-1]:
            pair = next(lines, None), next(lines, None)
            if pair[0] is None or pair[1] is None:
                raise InputError(f"{path}, line {number}: the file ends before this student's questions and responses")
            asked.append(pair[0])
            answered.append(pair[1])
    if not lengths:
        raise InputError(f"{path} is empty; check the path")
    steps = np.array(lengths, np.int64)
    question = _numbers(path, asked, "question ids", steps[steps > 0], pa.int64())
    value = _numbers(path, answered, "responses", steps[steps > 0], pa.float64())
    offsets = np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)
    begins = offsets[:-1][steps > 0]

    def locate(step: int, rows: list[Line] = answered) -> str:
        student = int(np.searchsorted(begins, step, side="right")) - 1
        return f"{path}, line {rows[student][0]}, entry {step - int(begins[student]) + 1}"

    if bool((question < 0).any()):
        step = int(np.flatnonzero(question < 0)[0])
        raise InputError(f"{locate(step, asked)}: question {question[step]} is negative; leave padding out")
    names, code = np.unique(question, return_inverse=True)
    students = np.arange(first, first + len(steps)).astype(str)
    return ParsedSteps(names.astype(str), code.reshape(-1), value, offsets, students, locate)


def write(path: Path, students: Students, partial_credit: bool = False) -> None:
    """Writes students with their questions' numbers, from 0; partial credit as scores r / (K-1) with three decimals."""
    top = students.categories - 1
    texts = [f"{level / top:.3f}" if partial_credit else str(level) for level in range(top + 1)]
    question = students.question.astype(str).tolist()
    response = [texts[category] for category in students.response.tolist()]
    lines = []
    for start, stop in zip(students.offsets[:-1].tolist(), students.offsets[1:].tolist(), strict=True):
        lines += [str(stop - start), ",".join(question[start:stop]), ",".join(response[start:stop])]
    write_atomic(path, ("\n".join(lines) + "\n").encode())


def _length(path: Path, number: int, line: str) -> int:
    if not (line.isascii() and line.isdigit()):
        shown = line if len(line) < 40 else f"{line[:37]}..."
        raise InputError(
            f"{path}, line {number}: {shown!r} should be the number of steps of a student; every student has three "
            f"lines: length, question ids, responses"
        )
    return int(line)


def _numbers(path: Path, lines: list[Line], what: str, steps: np.ndarray, dtype: pa.DataType) -> np.ndarray:
    entries = pc.split_pattern(pa.array([line for _, line in lines], pa.string()), ",")
    counts = np.diff(entries.offsets.to_numpy())
    wrong = np.flatnonzero(counts != steps)
    if len(wrong):
        raise InputError(
            f"{path}, line {lines[wrong[0]][0]}: {counts[wrong[0]]} {what}, but the student's length is given as "
            f"{steps[wrong[0]]}; correct one of them"
        )
    try:
        return pc.cast(pc.utf8_trim_whitespace(entries.values), dtype).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        for number, line in lines:
            for entry in line.split(","):
                try:
                    pa.scalar(entry.strip(), pa.string()).cast(dtype)
                except pa.ArrowException as error:
                    raise InputError(
                        f"{path}, line {number}: {entry.strip()!r} among the {what} is not a number"
                    ) from error
        raise
