"""A batch of samples from their grids to their results, by the batched executor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..execution.encoded import Encoded
from ..execution.encoding import encode_returned
from ..execution.failures import ProgramStatus
from ..execution.sequential import Arguments
from .executor import Batched
from .outcomes import Targets, equal_to, outcomes_of
from .records import Places, record_bytes, value_bytes

Results = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Encoded, list[str | None]]
"""Outcome, failing step, category and equality by sample and candidate; bytes of what programs return; problems."""


def run_batch(
    executor: Batched, arguments: Sequence[Arguments], problems: list[str | None], places: Places | None = None
) -> Results:
    """Runs all programs on samples; those that have a problem are not run.

    Args:
        places: where the programs are among more, for the bytes of what they return.
    """
    graph = executor.graph
    good = [at for at, problem in enumerate(problems) if problem is None]
    count = sum(len(program.outputs) for program in graph.programs)
    outcome = np.full((len(arguments), count), int(ProgramStatus.NOT_RUN), np.int8)
    step, equal = np.full((len(arguments), count), -1, np.int32), np.full((len(arguments), count), -1, np.int8)
    category = np.zeros((len(arguments), count), np.int8)
    nothing = encode_returned([None] * (len(graph.programs) if places is None else places[1]))
    if not good:
        return outcome, step, category, equal, Encoded.of([nothing] * len(arguments)), problems
    chosen = [arguments[at] for at in good]
    evaluation = executor.evaluate(chosen)
    became = outcomes_of(graph, evaluation)
    outcome[good], step[good], category[good] = became.status, became.step, became.category
    known = np.array([bool(sample.C) for sample in chosen])
    targets = Targets.of([sample.C for sample in chosen], executor.device)
    column = 0
    for number, program in enumerate(graph.programs):
        for record in program.outputs:
            same = equal_to(evaluation.steps[record[-1]], targets) & ~became.ended[number]
            equal[good, column] = np.where(known, same, -1)
            column += 1
    values = {node: value_bytes(of, len(chosen)) for node, of in evaluation.steps.items()}
    encoded = record_bytes(graph.programs, values, became.ended, places)
    if len(good) < len(arguments):
        given = iter(encoded)
        encoded = Encoded.of([nothing if problem else next(given) for problem in problems])
    return outcome, step, category, equal, encoded, problems
