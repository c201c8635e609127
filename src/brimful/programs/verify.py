"""Comparing the run with the emitted module on random samples: every output must agree, and every escape."""

from __future__ import annotations

import random
from typing import Any

from ..core.base.errors import BrimfulError
from .compiled import compile
from .data.tasks import Sample
from .execution.encoding import decode, encode
from .execution.failures import ProgramStatus
from .language.program import Form
from .loading import Programs
from .outcomes import Outcomes


class VerificationError(BrimfulError):
    """Two executors disagree."""


def verify(outcomes: Outcomes, count: int, seed: int = 0) -> int:
    """Runs random samples by the emitted module, and compares with what was computed.

    Args:
        outcomes: of a run with the safe defaults.
        count: how many samples, at most.

    Returns:
        How many were compared.

    Raises:
        VerificationError: the first difference.
    """
    usable = [index for index, sample in enumerate(outcomes.samples) if sample.problem is None]
    chosen = random.Random(seed).sample(usable, min(count, len(usable)))
    outputs = outcomes.outputs
    compiled = [compile(Programs((program,), _source(outcomes.programs, program), ())) for program in outcomes.programs]
    for index in sorted(chosen):
        for number, single in enumerate(compiled):
            _compare(outcomes, index, number, single, outputs[index][number])
    return len(chosen)


def _source(programs: Programs, program: Any) -> tuple[Any, ...]:
    return tuple(source for source in programs.sources if source.file == program.file)


def _compare(outcomes: Outcomes, index: int, number: int, single: Any, stored: Any) -> None:
    sample, program = outcomes.samples[index], outcomes.programs[number]
    columns = [column for column, of in enumerate(outcomes.candidates) if of.program == number]
    if columns and outcomes.status[index, columns[0]] == ProgramStatus.NOT_RUN:
        return
    try:
        outputs, scores = single.batt(sample.task, sample.S, sample.I, sample.C)
    except Exception:
        again = None
    else:
        again = outputs[0][-1] if program.form is Form.SOLVER else (tuple(outputs), tuple(scores))
    expected = stored if stored is None or program.form is Form.SOLVER else (tuple(stored[0]), tuple(stored[1]))
    if encode(decode(encode(again))) != encode(expected):  # what is stored was decoded: functions are names
        raise VerificationError(_difference(sample, program.name))


def _difference(sample: Sample, name: str) -> str:
    return (
        f"{name} on {sample.task} {sample.kind} {sample.index}: the emitted module gives another result than the run. "
        "This is a fault of brimful: please report it with the program and the task"
    )
