"""What became of programs on samples: outputs, status and failures.

Legend: N samples, K candidate outputs: one per solver, one per output of a batt.
"""

from __future__ import annotations

import functools
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from ..core.base.errors import InputError
from ..data.ragged import Ragged
from ..engine.map.result import MapResult
from .data.tasks import Sample
from .encoded_outputs import EncodedOutputs
from .execution.encoding import decode
from .execution.failures import Category, ProgramStatus
from .flags import Flags, PackedFlags, joined
from .language.program import Form, Kind, Program
from .loading import Programs


class Candidate(NamedTuple):
    """One output of a program.

    Attributes:
        program: its number.
        output: which of its outputs.
        name: how tables call it: the program's name, and for a batt the label that its record carries.
    """

    program: int
    output: int
    name: str


class ProgramFailure(NamedTuple):
    """The first operation of a program that failed on a sample."""

    program: str
    task: str
    kind: str
    pair: int
    operation: str
    line: int
    category: str
    ended: bool


class Outcomes:
    """What became of every candidate on every sample.

    Attributes:
        programs: what was run.
        samples: on what.
        values: gives all outputs, as bytes.
    """

    def __init__(
        self,
        programs: Programs,
        samples: Sequence[Sample],
        flags: Sequence[Flags | PackedFlags],
        values: Callable[[], Ragged],
        parts: Callable[[], Iterator[Ragged]] | None = None,
    ) -> None:
        """
        Args:
            flags: part by part, in the order of the samples.
            parts: gives the outputs in the same parts, where they are on disk; None where they are in memory.
        """
        self.programs, self.samples, self.values = programs, tuple(samples), values
        self._flags, self._parts = flags, parts

    @property
    def status(self) -> np.ndarray:
        """(N, K) `ProgramStatus`."""
        return self._whole.status

    @property
    def step(self) -> np.ndarray:
        """(N, K) the first step of the program that failed, -1 where none did."""
        return self._whole.step

    @property
    def category(self) -> np.ndarray:
        """(N, K) how it failed."""
        return self._whole.category

    @property
    def equal(self) -> np.ndarray:
        """(N, K) 1 where the output is the target, 0 where not, -1 where the target is not known."""
        return self._whole.equal

    @functools.cached_property
    def _whole(self) -> Flags:
        return joined(list(self.flags()))

    @functools.cached_property
    def candidates(self) -> list[Candidate]:
        """The candidate outputs, in the order of the columns."""
        return candidates_of(self.programs)

    @property
    def outputs(self) -> Outputs:
        """What the programs gave, by sample."""
        return Outputs(self.programs, self.values())

    def flags(self) -> Iterator[Flags]:
        """What became of the samples, part by part, without the outputs. One part is in memory at once."""
        for part in self._flags:
            yield part if isinstance(part, Flags) else part.unpacked()

    def each_part(self) -> Iterator[tuple[Flags, EncodedOutputs]]:
        """The same with the outputs."""
        if self._parts is None:
            yield self._whole, EncodedOutputs.of(self.programs, self.values())
            return
        for flags, part in zip(self.flags(), self._parts(), strict=True):
            yield flags, EncodedOutputs.of(self.programs, part)

    def some_outputs(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Any]:
        """The outputs of some samples and candidates; None where there is none."""
        by_sample, found = sorted(set(wanted)), dict[tuple[int, int], Any]()
        for flags, outputs in self.each_part() if by_sample else ():
            while by_sample and by_sample[0][0] < flags.stop:
                sample, column = by_sample.pop(0)
                found[sample, column] = outputs.value(sample - flags.start, column)
        return found

    def failure(self, sample: int, column: int, candidate: Candidate) -> ProgramFailure:
        """Which operation failed for a candidate on a sample."""
        program, step = self.programs[candidate.program], int(self.step[sample, column])
        of = self.samples[sample]
        category = Category(int(self.category[sample, column])).label
        ended = self.status[sample, column] == ProgramStatus.FAILED
        where = program.nodes[step].label, program.lines[step]
        return ProgramFailure(candidate.name, of.task, of.kind, of.index, *where, category, bool(ended))

    def failures(self) -> list[ProgramFailure]:
        """The first operation that failed, for every candidate and sample on which one did."""
        names = self.candidates
        return [
            self.failure(int(sample), int(column), names[column])
            for sample, column in zip(*np.nonzero(self.step >= 0), strict=True)
        ]

    def failed_by_category(self) -> dict[str, int]:
        """How many candidates met a failure first in each category."""
        counts = Counter[int]()
        for flags in self.flags():
            counts.update(flags.category[flags.step >= 0].tolist())
        return {Category(code).label: count for code, count in sorted(counts.items())}

    def failed_by_operation(self) -> Counter[str]:
        """How many candidates met a failure first in each operation."""
        counts, program_of = Counter[tuple[int, int]](), np.array([candidate.program for candidate in self.candidates])
        for flags in self.flags():
            rows, columns = np.nonzero(flags.step >= 0)
            counts.update(zip(program_of[columns].tolist(), flags.step[rows, columns].tolist(), strict=True))
        labels = Counter[str]()
        for (program, step), count in sorted(counts.items()):
            labels[self.programs[program].nodes[step].label] += count
        return labels

    def each_task(self) -> Iterator[tuple[str, list[int], Flags]]:
        """Every task with its samples and what became of them, in the order in which tasks first appear. Where the
        samples of a task are together, one part and what is left of the one before are in memory at once."""
        ended, held = EndedTasks(self.samples), dict[str, list[tuple[list[int], Flags]]]()
        for flags in self.flags():
            of_task = dict[str, list[int]]()
            for row, sample in enumerate(self.samples[flags.start : flags.stop]):
                of_task.setdefault(sample.task, []).append(row)
            for task, rows in of_task.items():
                held.setdefault(task, []).append(([flags.start + row for row in rows], flags.rows(rows)))
            for task in ended.before(flags.stop):
                parts = held.pop(task)
                yield task, [index for rows, _ in parts for index in rows], joined([part for _, part in parts])


class EndedTasks:
    """The tasks of samples that are gone through in order: each as soon as its last sample has been seen, and every
    task that appeared before it has ended, so that their order does not depend on how the samples are cut."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._last = {sample.task: index for index, sample in enumerate(samples)}
        self._waiting = deque(self._last)

    def before(self, stop: int) -> Iterator[str]:
        """Those that have ended, and were not given yet, where all samples before an index have been seen."""
        while self._waiting and self._last[self._waiting[0]] < stop:
            yield self._waiting.popleft()


class Outputs(Sequence[list[Any]]):
    """Outputs by sample, decoded when they are asked for."""

    def __init__(self, programs: Programs, values: Ragged) -> None:
        self._forms = [program.form for program in programs]
        self._bytes, self._offsets = values.values.numpy(), values.offsets.tolist()

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, sample: Any) -> Any:
        """The outputs of a sample, or of the samples of a slice."""
        if isinstance(sample, slice):
            return [self[index] for index in range(*sample.indices(len(self)))]
        first = sample + len(self) if sample < 0 else sample
        if not 0 <= first < len(self):
            raise IndexError(f"sample {sample} of {len(self)}")
        encoded = self._bytes[self._offsets[first] : self._offsets[first + 1]].tobytes()
        if not encoded:  # the sample itself failed
            return [None] * len(self._forms)
        return [_returned(form, records) for form, records in zip(self._forms, decode(encoded), strict=True)]

    def __iter__(self) -> Iterator[list[Any]]:
        return (self[index] for index in range(len(self)))


def _returned(form: Form, records: Any) -> Any:
    """What a program returns, as its source has it."""
    if records is None:
        return None
    outputs, scores = records
    return outputs[0][0] if form is Form.SOLVER else (list(outputs), list(scores))


def outcomes_of(programs: Programs, samples: Sequence[Sample], values: Mapping[str, Any]) -> Outcomes:
    """The outcomes that `SampleFunction` returned for all samples."""
    return Outcomes(programs, samples, [Flags.of(0, values)], lambda: values["values"])


def outcomes_of_map(programs: Programs, samples: Sequence[Sample], mapped: MapResult) -> Outcomes:
    """The outcomes of a run. Where it is on disk, outputs stay there."""
    if mapped.out is None and mapped.values is not None:
        return outcomes_of(programs, samples, cast(Any, mapped.values))
    candidates, flags, some = sum(len(program.outputs) for program in programs), list[PackedFlags](), False
    for index, part in mapped.parts():
        start = int(index[0]) if len(index) else 0
        some = some or part is not None
        nothing = Flags.nothing(start, len(index), candidates)
        flags.append(PackedFlags(nothing if part is None else Flags.of(start, cast(Any, part))))
    if not some:
        reason = next(iter(mapped.messages.values()), "there are no samples")
        raise InputError(f"no sample could be run: {reason}")

    def parts() -> Iterator[Ragged]:
        for index, part in mapped.parts():
            nothing = Ragged(torch.zeros(0, dtype=torch.uint8), torch.zeros(len(index) + 1, dtype=torch.int64))
            yield nothing if part is None else cast(Any, part)["values"]

    return Outcomes(programs, samples, flags, functools.partial(_values, mapped), parts)


def _values(mapped: MapResult) -> Ragged:
    return cast(Any, mapped.values)["values"]


def candidates_of(programs: Sequence[Program]) -> list[Candidate]:
    """The candidate outputs of programs, in order."""
    return [
        Candidate(number, output, _name(program, output))
        for number, program in enumerate(programs)
        for output in range(len(program.outputs))
    ]


def _name(program: Program, output: int) -> str:
    """The program's name; for an output of a batt also its number and the first text of its record."""
    if program.form is Form.SOLVER:
        return program.name
    nodes = [program.nodes[node] for node in program.outputs[output]]
    texts = [node.value for node in nodes if node.kind is Kind.CONSTANT and isinstance(node.value, str)]
    return "_".join([program.name, str(output), *texts[:1]])
