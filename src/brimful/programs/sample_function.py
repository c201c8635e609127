"""Programs as a function of a batch of samples, for `map`: it is given the samples' indices.

It holds sources and samples as text and bytes, and reads them where it runs, so that it is small on the way to a
worker process and has a fingerprint.

Legend: N samples, K candidate outputs (one per solver, one per output of a batt).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..data.ragged import Ragged
from ..engine.map.batch import Batch
from .batched.executor import Batched
from .batched.sample_batch import run_batch
from .data.tasks import Sample
from .execution.encoding import decode, encode, encode_returned
from .execution.failures import Category, ProgramStatus
from .execution.sequential import Arguments, Outcome, Sequential
from .language.graph import Graph
from .language.operation import Operation
from .loading import Programs, SourceText, reload
from .vocabulary.registered import install, registered

INVALID = 16
"""Status of a sample that is no sample of ARC."""

_NOT_RUN = Outcome(ProgramStatus.NOT_RUN, -1, Category.NONE)
_KEPT = 8  # executors for the programs of one task that are kept: samples come task by task


@dataclass(frozen=True, slots=True)
class EncodedSample:
    """A sample as bytes; `task` is the number of its task and demonstrations."""

    task: int
    grid: bytes
    reference: bytes
    problem: str | None


class SampleFunction:
    """Runs programs on samples.

    Args:
        programs: what to run.
        samples: on what.
        on_error: see `Sequential`.
        pair_by_name: run a program only on the task whose id its name carries.
        merged: compute what programs share once.
        batched: run every operation once over all samples of a batch, on the device that it is on.
    """

    def __init__(
        self,
        programs: Programs,
        samples: Sequence[Sample],
        on_error: str = "default",
        pair_by_name: bool = False,
        merged: bool = True,
        batched: bool = False,
    ) -> None:
        self.sources: tuple[SourceText, ...] = programs.sources
        used = {node.name for program in programs for node in program.nodes if node.operation is not None}
        self.operations: dict[str, Operation] = {name: own for name, own in registered().items() if name in used}
        self.on_error, self.pair_by_name, self.merged, self.batched = on_error, pair_by_name, merged, batched
        tasks = dict.fromkeys((sample.task, sample.S) for sample in samples)
        numbers = {task: number for number, task in enumerate(tasks)}
        self.tasks = tuple(name for name, _ in tasks)
        self.demonstrations = tuple(encode(shown) for _, shown in tasks)
        self.samples = tuple(
            EncodedSample(numbers[sample.task, sample.S], encode(sample.I), encode(sample.C), sample.problem)
            for sample in samples
        )
        self._running: _Running | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_running": None}

    def __call__(self, index_N: torch.Tensor) -> Batch:
        if self._running is None:
            self._running = _Running(self)
        running = self._running
        numbers = index_N.tolist()
        rows = running.batch(numbers, index_N.device) if self.batched else running.one_by_one(numbers)
        return Batch(
            {
                "outcome": torch.from_numpy(rows.outcome),
                "step": torch.from_numpy(rows.step),
                "category": torch.from_numpy(rows.category),
                "equal": torch.from_numpy(rows.equal),
                "values": Ragged.of([torch.frombuffer(bytearray(row), dtype=torch.uint8) for row in rows.encoded]),
            },
            status=torch.tensor([INVALID if problem else 0 for problem in rows.problems]),
            message={at: problem for at, problem in enumerate(rows.problems) if problem},
        )


@dataclass(frozen=True, slots=True)
class _Rows:
    """The results of some samples.

    Attributes:
        outcome, step, category: (N, K) what became of each candidate.
        equal: (N, K) whether it is the target; -1 where that is not known.
        encoded: the records of all programs as bytes.
        problems: why a sample was not run.
    """

    outcome: np.ndarray
    step: np.ndarray
    category: np.ndarray
    equal: np.ndarray
    encoded: list[bytes]
    problems: list[str | None]


@dataclass(frozen=True, slots=True)
class _Row:
    """The result of one sample: what became of each candidate, whether it is the target (-1: not known), and the
    records of all programs as bytes."""

    outcomes: list[Outcome]
    equal: list[int]
    encoded: bytes
    problem: str | None = None


class _Running:
    """What a process needs to run the programs: they are read once."""

    def __init__(self, function: SampleFunction) -> None:
        install(function.operations)
        self._function = function
        self._programs = reload(function.sources)
        counts = [len(program.outputs) for program in self._programs]
        starts = [sum(counts[:number]) for number in range(len(counts))]
        self.candidates = sum(counts)
        self._ranges = [range(start, start + count) for start, count in zip(starts, counts, strict=True)]
        self._all = tuple(range(len(self._programs)))
        self._executors: dict[tuple[int, ...], Sequential] = {}
        self._task: tuple[int, Any] | None = None
        self._batched: Batched | None = None

    def one_by_one(self, numbers: list[int]) -> _Rows:
        """Samples, one after the other."""
        rows = [self.sample(number) for number in numbers]
        outcomes = np.array([[tuple(outcome) for outcome in row.outcomes] for row in rows], np.int32)
        outcomes_NK3 = outcomes.reshape(len(rows), self.candidates, 3)
        return _Rows(
            outcomes_NK3[:, :, 0].astype(np.int8),
            np.ascontiguousarray(outcomes_NK3[:, :, 1]),
            outcomes_NK3[:, :, 2].astype(np.int8),
            np.array([row.equal for row in rows], np.int8).reshape(len(rows), self.candidates),
            [row.encoded for row in rows],
            [row.problem for row in rows],
        )

    def batch(self, numbers: list[int], device: torch.device) -> _Rows:
        """Samples, all at once."""
        samples = [self._function.samples[number] for number in numbers]
        shown = {sample.task: decode(self._function.demonstrations[sample.task]) for sample in samples}
        arguments = [
            Arguments(self._function.tasks[of.task], shown[of.task], decode(of.grid), decode(of.reference))
            for of in samples
        ]
        if self._batched is None or self._batched.device != device:
            graph = Graph.of(list(self._programs), self._function.merged)
            self._batched = Batched(graph, self._function.on_error, device)
        return _Rows(*run_batch(self._batched, arguments, [sample.problem for sample in samples]))

    def sample(self, number: int) -> _Row:
        """Runs all programs that are meant for a sample."""
        sample = self._function.samples[number]
        outcomes, equal = [_NOT_RUN] * self.candidates, [-1] * self.candidates
        records: list[Any] = [None] * len(self._programs)
        name = self._function.tasks[sample.task]
        chosen = programs_for(name, self._programs) if self._function.pair_by_name else self._all
        if sample.problem is None and chosen:
            if self._task is None or self._task[0] != sample.task:
                self._task = sample.task, decode(self._function.demonstrations[sample.task])
            target = decode(sample.reference)
            executor = self._executor(chosen)
            evaluation = executor.evaluate(Arguments(name, self._task[1], decode(sample.grid), target))
            by_candidate = iter(executor.outcomes(evaluation))
            escaped = [node for node, failure in evaluation.failures.items() if failure.escaped]
            for program, of in zip(chosen, executor.graph.programs, strict=True):
                ended = any(node in of.steps for node in escaped)
                for at, record in zip(self._ranges[program], of.outputs, strict=True):
                    outcomes[at] = next(by_candidate)
                    if target:
                        equal[at] = int(not ended and evaluation.values[record[-1]] == target)
                if not ended:
                    records[program] = evaluation.records(of.outputs), evaluation.records(of.scores)
        return _Row(outcomes, equal, encode_returned(records), sample.problem)

    def _executor(self, chosen: tuple[int, ...]) -> Sequential:
        if chosen not in self._executors:
            if len(self._executors) >= _KEPT:
                del self._executors[next(iter(self._executors))]
            graph = Graph.of([self._programs[number] for number in chosen], self._function.merged)
            self._executors[chosen] = Sequential(graph, self._function.on_error)
        return self._executors[chosen]


def programs_for(task: str, programs: Programs) -> tuple[int, ...]:
    """The numbers of the programs whose name carries the id of a task, as `solve_007bbfb7` does."""
    return tuple(number for number, program in enumerate(programs) if task in program.name.split("_"))
