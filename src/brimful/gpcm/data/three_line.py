"""The three-line format: for each student its number of steps, its questions, its responses, separated by commas.

Trailing commas, blank lines, spaces, Windows line ends and a byte order mark are passed over. A student of length 0 has
no other lines (blank ones do not count). Students have no names here: they are numbered in the order they come.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from ...core.base.errors import InputError
from ...core.runs.files import write_atomic
from .raw import Raw
from .students import Students

pc: Any = pyarrow.compute  # its functions are made as it is imported, so type checkers do not see them


def looks_so(path: Path) -> bool:
    """Whether the first line with something in it is one whole number."""
    with path.open("rb") as file:
        for line in file:
            if text := line.removeprefix(b"\xef\xbb\xbf").strip(b", \t\r\n"):
                return text.isdigit()
    return False


def parse(path: Path, first: int = 0) -> Raw:
    """Reads a file; students are numbered from `first`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path} cannot be read as text: {error}; is it the right file?") from error
    lines = [(number, line) for number, raw in enumerate(text.splitlines(), 1) if (line := raw.strip(", \t\r"))]
    if not lines:
        raise InputError(f"{path} is empty; check the path")
    lengths, asked, answered = [], [], []
    place = 0
    while place < len(lines):
        number, line = lines[place]
        length = _length(path, number, line)
        lengths.append(length)
        place += 1
        if length == 0:
            continue
        if place + 2 > len(lines):
            raise InputError(f"{path}, line {number}: the file ends before this student's questions and responses")
        asked.append(lines[place])
        answered.append(lines[place + 1])
        place += 2
    steps = np.array(lengths, np.int64)
    ids = _numbers(path, asked, "question ids", steps[steps > 0], pa.int64())
    value = _numbers(path, answered, "responses", steps[steps > 0], pa.float64())
    offsets = np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)
    begins = offsets[:-1][steps > 0]

    def where(step: int) -> str:
        student = int(np.searchsorted(begins, step, side="right")) - 1
        return f"{path}, line {answered[student][0]}, entry {step - int(begins[student]) + 1}"

    if bool((ids < 0).any()):
        step = int(np.flatnonzero(ids < 0)[0])
        student = int(np.searchsorted(begins, step, side="right")) - 1
        raise InputError(
            f"{path}, line {asked[student][0]}: question {ids[step]} is negative; padding is to be left out"
        )
    names, code = np.unique(ids, return_inverse=True)
    students = np.arange(first, first + len(steps)).astype(str)
    return Raw(names.astype(str), code.reshape(-1), value, offsets, students, where)


def write(path: Path, students: Students, scores: bool = False) -> None:
    """Writes students with their questions' numbers, from 0; with `scores`, responses as r / (K-1), three decimals."""
    texts = [
        f"{level / (students.categories - 1):.3f}" if scores else str(level) for level in range(students.categories)
    ]
    question, response = students.question.astype(str).tolist(), [texts[each] for each in students.response.tolist()]
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


def _numbers(path: Path, lines: list[tuple[int, str]], what: str, steps: np.ndarray, kind: pa.DataType) -> np.ndarray:
    parts = pc.split_pattern(pa.array([line for _, line in lines], pa.string()), ",")
    found = np.diff(parts.offsets.to_numpy())
    wrong = np.flatnonzero(found != steps)
    if len(wrong):
        number, _ = lines[wrong[0]]
        raise InputError(
            f"{path}, line {number}: {found[wrong[0]]} {what}, but the student's length is given as {steps[wrong[0]]}; "
            f"correct one of them"
        )
    try:
        return pc.cast(pc.utf8_trim_whitespace(parts.values), kind).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        for number, line in lines:
            for each in line.split(","):
                try:
                    pa.scalar(each.strip(), pa.string()).cast(kind)
                except pa.ArrowException as error:
                    raise InputError(
                        f"{path}, line {number}: {each.strip()!r} among the {what} is not a number"
                    ) from error
        raise
