"""Running random samples again by every other way, and comparing all that they give: each difference is an error."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch

from ..core.base.errors import BrimfulError
from .compiled import compile
from .data.tasks import Sample
from .execution.arguments import Arguments
from .execution.encoding import decode, encode
from .execution.failures import Category, ProgramStatus
from .executors.comparison import first_difference
from .executors.rows import Rows
from .executors.runner import Runner, programs_for
from .flags import Flags
from .language.graph import Graph
from .language.program import Form
from .outcomes import Outcomes

_REPORT = "This is a fault of brimful: please report it with the program and the task"


class VerificationError(BrimfulError):
    """Two executors disagree."""


def verify(
    outcomes: Outcomes,
    count: int,
    seed: int = 0,
    on_error: str = "default",
    pair_by_name: bool = False,
    device: str | torch.device = "cpu",
) -> int:
    """Runs random samples by both executors and by the emitted module, and compares with what was computed.

    Args:
        outcomes: of a run.
        count: how many samples, at most.
        on_error, pair_by_name: as in that run. The emitted module is compared where failures give defaults.
        device: where the batched executor runs.

    Returns:
        How many were compared.

    Raises:
        VerificationError: the first difference, with the sample, the operation, and what either gives.
    """
    usable = [index for index, sample in enumerate(outcomes.samples) if sample.problem is None]
    chosen = sorted(random.Random(seed).sample(usable, min(count, len(usable))))
    _compare_executors(outcomes, chosen, on_error, pair_by_name, torch.device(device))
    _compare_rows(outcomes, chosen, Runner(outcomes.programs, on_error, pair_by_name))
    if on_error == "default":
        _compare_emitted(outcomes, chosen)
    return len(chosen)


def _compare_executors(
    outcomes: Outcomes, chosen: Sequence[int], on_error: str, pair_by_name: bool, device: torch.device
) -> None:
    """Every step of every program, by both executors."""
    groups: dict[tuple[int, ...], list[int]] = {}
    everything = tuple(range(len(outcomes.programs)))
    for index in chosen:
        of = programs_for(outcomes.samples[index].task, outcomes.programs) if pair_by_name else everything
        groups.setdefault(of, []).append(index)
    for numbers, indices in groups.items():
        graph = Graph.of([outcomes.programs[number] for number in numbers])
        given = [_arguments(outcomes.samples[index]) for index in indices]
        different = first_difference(graph, on_error, given, device) if numbers else None
        if different is not None:
            sample = outcomes.samples[indices[different.sample]]
            raise VerificationError(f"{_name(sample)}: {different}. {_REPORT}")


def _compare_rows(outcomes: Outcomes, chosen: Sequence[int], runner: Runner) -> None:
    """What the run has stored, and what the sequential executor gives now."""
    samples, values = [outcomes.samples[index] for index in chosen], outcomes.values()
    rows = runner.sequential([_arguments(sample) for sample in samples], [None] * len(samples))
    bounds, names = values.offsets.tolist(), outcomes.candidates
    for at, (index, sample) in enumerate(zip(chosen, samples, strict=True)):
        for column, candidate in enumerate(names):
            stored = _became(outcomes, index, column)
            now = _became(outcomes_of_row(outcomes, rows, at), 0, column)
            if stored != now:
                raise VerificationError(
                    f"{_name(sample)}: {candidate.name} is {stored} in the run, and {now} sequentially. {_REPORT}"
                )
        encoded = values.values[bounds[index] : bounds[index + 1]].numpy().tobytes()
        if encoded != rows.encoded[at]:
            pairs = zip(outcomes.programs, decode(encoded), decode(rows.encoded[at]), strict=True)
            name, one, other = next((of.name, a, b) for of, a, b in pairs if encode(a) != encode(b))
            raise VerificationError(
                f"{_name(sample)}: {name} returns {_short(one)} in the run, and {_short(other)} sequentially. {_REPORT}"
            )


def outcomes_of_row(outcomes: Outcomes, rows: Rows, at: int) -> Outcomes:
    """One row as the outcomes of its sample."""
    flags = Flags(0, *(part[at : at + 1] for part in (rows.outcome, rows.step, rows.category, rows.equal)))
    return Outcomes(outcomes.programs, outcomes.samples[:1], [flags], outcomes.values)


def _became(outcomes: Outcomes, sample: int, column: int) -> str:
    """What became of a candidate, as a text: status, failing step, category, and whether it is the target."""
    status = ProgramStatus(int(outcomes.status[sample, column])).name
    right = {1: "right", 0: "wrong", -1: "without a target"}[int(outcomes.equal[sample, column])]
    step = int(outcomes.step[sample, column])
    if step < 0:
        return f"{status}, {right}"
    program = outcomes.programs[outcomes.candidates[column].program]
    category = Category(int(outcomes.category[sample, column])).label
    return f"{status}, {right}, {program.nodes[step].label} in line {program.lines[step]} fails with {category}"


def _compare_emitted(outcomes: Outcomes, chosen: Sequence[int]) -> None:
    """What the emitted module returns."""
    outputs = outcomes.outputs
    loaded = outcomes.programs
    compiled = [compile(loaded[number : number + 1]) for number in range(len(loaded))]
    for index in chosen:
        for number, single in enumerate(compiled):
            _compare_call(outcomes, index, number, single, outputs[index][number])


def _compare_call(outcomes: Outcomes, index: int, number: int, single: Any, stored: Any) -> None:
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
        raise VerificationError(
            f"{program.name} on {_name(sample)}: the emitted module gives another result than the run: "
            f"{_short(again)}, and not {_short(expected)}. {_REPORT}"
        )


def _arguments(sample: Sample) -> Arguments:
    return Arguments(sample.task, sample.S, sample.I, sample.C)


def _name(sample: Sample) -> str:
    return f"{sample.task} {sample.kind} {sample.index}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
