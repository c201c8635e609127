"""Samples to rows of results, by either executor: what a process needs to run the programs is made once.

The two give the same rows, to the last bit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..batched.evaluation.executor import Batched
from ..batched.machine import Usage
from ..batched.results.sample_batch import run_batch
from ..execution.arguments import SampleArguments
from ..execution.encoded import Encoded
from ..execution.encoding import encode_returned
from ..execution.failures import Category, ProgramStatus
from ..execution.sequential import Outcome, Sequential
from ..language.graph import Graph
from ..loading import Programs
from .rows import Rows

_NOT_RUN = Outcome(ProgramStatus.NOT_RUN, -1, Category.NONE)
_KEPT = 8  # executors for the programs of one task that are kept: samples come task by task


class Runner:
    """Runs programs.

    Args:
        programs: what to run.
        on_error: see `Sequential`.
        pair_by_name: run a program only on the task whose id its name carries.
        merged: compute what programs share once.
    """

    def __init__(self, programs: Programs, on_error: str, pair_by_name: bool, merged: bool = True) -> None:
        self.programs, self._on_error, self._pair_by_name, self._merged = programs, on_error, pair_by_name, merged
        counts = [len(program.outputs) for program in programs]
        starts = [sum(counts[:number]) for number in range(len(counts))]
        self.candidates = sum(counts)
        self._ranges = [range(start, start + count) for start, count in zip(starts, counts, strict=True)]
        self._all = tuple(range(len(programs)))
        self._sequential: dict[tuple[int, ...], Sequential] = {}
        self._batched: dict[tuple[tuple[int, ...], torch.device], Batched] = {}
        self.usage: dict[str, Usage] = defaultdict(Usage)

    def sequential(self, samples: Sequence[SampleArguments], problems: Sequence[str | None]) -> Rows:
        """Samples, one after the other."""
        rows = [self._sample(sample, problem) for sample, problem in zip(samples, problems, strict=True)]
        outcomes = np.array([[tuple(outcome) for outcome in of] for of, _, _ in rows], np.int32)
        outcomes_NK3 = outcomes.reshape(len(rows), self.candidates, 3)
        return Rows(
            outcomes_NK3[:, :, 0].astype(np.int8),
            np.ascontiguousarray(outcomes_NK3[:, :, 1]),
            outcomes_NK3[:, :, 2].astype(np.int8),
            np.array([equal for _, equal, _ in rows], np.int8).reshape(len(rows), self.candidates),
            Encoded.of([encoded for _, _, encoded in rows]),
            list(problems),
        )

    def _sample(self, sample: SampleArguments, problem: str | None) -> tuple[list[Outcome], list[int], bytes]:
        """Runs all programs that are meant for a sample: what became of the candidates, which of them are the target,
        and what they return."""
        outcomes, equal = [_NOT_RUN] * self.candidates, [-1] * self.candidates
        records: list[Any] = [None] * len(self.programs)
        chosen = self._chosen(sample.task_id)
        if problem is None and chosen:
            executor = self._sequential_of(chosen)
            evaluation = executor.evaluate(sample)
            by_candidate = iter(executor.outcomes(evaluation))
            escaped = [node for node, failure in evaluation.failures.items() if failure.escaped]
            for program, of in zip(chosen, executor.graph.programs, strict=True):
                ended = any(node in of.steps for node in escaped)
                for at, record in zip(self._ranges[program], of.outputs, strict=True):
                    outcomes[at] = next(by_candidate)
                    if sample.C:
                        equal[at] = int(not ended and evaluation.values[record[-1]] == sample.C)
                if not ended:
                    records[program] = evaluation.records(of.outputs), evaluation.records(of.scores)
        return outcomes, equal, encode_returned(records)

    def batched(self, samples: Sequence[SampleArguments], problems: Sequence[str | None], device: torch.device) -> Rows:
        """Samples, all at once; those that other programs are meant for apart."""
        if not self._pair_by_name:
            return Rows(*run_batch(self._batched_of(self._all, device), samples, list(problems)))
        rows = Rows.blank(problems, len(self.programs), self.candidates)
        encoded = list(rows.encoded)
        groups: dict[tuple[int, ...], list[int]] = {}
        for at, sample in enumerate(samples):
            groups.setdefault(self._chosen(sample.task_id), []).append(at)
        for chosen, where in groups.items():
            if chosen:
                executor = self._batched_of(chosen, device)
                places = chosen, len(self.programs)
                of = [samples[at] for at in where]
                part = Rows(*run_batch(executor, of, [problems[at] for at in where], places))
                columns = [at for number in chosen for at in self._ranges[number]]
                for name in ("outcome", "step", "category", "equal"):
                    getattr(rows, name)[np.ix_(where, columns)] = getattr(part, name)
                for at, data in zip(where, part.encoded, strict=True):
                    encoded[at] = data
        return replace(rows, encoded=Encoded.of(encoded))

    def _chosen(self, task: str) -> tuple[int, ...]:
        return programs_for(task, self.programs) if self._pair_by_name else self._all

    def _sequential_of(self, chosen: tuple[int, ...]) -> Sequential:
        return _kept(self._sequential, chosen, lambda: Sequential(self._graph(chosen), self._on_error))

    def _batched_of(self, chosen: tuple[int, ...], device: torch.device) -> Batched:
        """The batched executor of some programs."""
        key = chosen, device
        executor = _kept(self._batched, key, lambda: Batched(self._graph(chosen), self._on_error, device))
        executor.machine.usage = self.usage
        return executor

    def _graph(self, chosen: tuple[int, ...]) -> Graph:
        if chosen == self._all:
            return self.programs.merge(self._merged)
        return Graph.of([self.programs[number] for number in chosen], self._merged)


def _kept(made: dict[Any, Any], key: Any, make: Any) -> Any:
    """What was made for a key; the oldest goes where there are many."""
    if key not in made:
        if len(made) >= _KEPT:
            del made[next(iter(made))]
        made[key] = make()
    return made[key]


def programs_for(task: str, programs: Programs) -> tuple[int, ...]:
    """The numbers of the programs whose name carries the id of a task, as `solve_007bbfb7` does."""
    return tuple(number for number, program in enumerate(programs) if task in program.name.split("_"))
