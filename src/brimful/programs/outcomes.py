"""What became of programs on samples: outputs, status and failures.

Legend: N samples, K candidate outputs: one per solver, one per output of a batt.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """What became of every candidate on every sample.

    Attributes:
        programs: what was run.
        samples: on what.
        status: (N, K) `ProgramStatus`.
        step: (N, K) the first step of the program that failed, -1 where none did.
        category: (N, K) how it failed.
        equal: (N, K) 1 where the output is the target, 0 where not, -1 where the target is not known.
        values: gives all outputs, as bytes.
        parts: gives them part by part, in the order of the samples, where they are on disk; None where they are in
            memory.
    """

    programs: Programs
    samples: tuple[Sample, ...] = field(repr=False)
    status: np.ndarray = field(repr=False)
    step: np.ndarray = field(repr=False)
    category: np.ndarray = field(repr=False)
    equal: np.ndarray = field(repr=False)
    values: Callable[[], Ragged] = field(repr=False)
    parts: Callable[[], Iterator[Ragged]] | None = field(repr=False, default=None)

    @property
    def candidates(self) -> list[Candidate]:
        """The candidate outputs, in the order of the columns."""
        return candidates_of(self.programs)

    @property
    def outputs(self) -> Outputs:
        """What the programs gave, by sample."""
        return Outputs(self.programs, self.values())

    def each_part(self) -> Iterator[tuple[int, EncodedOutputs]]:
        """All outputs part by part, each with the index of its first sample. One part is in memory at once."""
        start = 0
        for part in [self.values()] if self.parts is None else self.parts():
            yield start, EncodedOutputs.of(self.programs, part)
            start += len(part)

    def some_outputs(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Any]:
        """The outputs of some samples and candidates; None where there is none."""
        by_sample, found = sorted(set(wanted)), dict[tuple[int, int], Any]()
        for start, outputs in self.each_part() if by_sample else ():
            while by_sample and by_sample[0][0] < start + len(outputs.starts):
                sample, column = by_sample.pop(0)
                found[sample, column] = outputs.value(sample - start, column)
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
        counts = Counter(self.category[self.step >= 0].tolist())
        return {Category(code).label: count for code, count in sorted(counts.items())}

    def by_task(self) -> dict[str, list[int]]:
        """The indices of the samples of every task."""
        tasks: dict[str, list[int]] = {}
        for index, sample in enumerate(self.samples):
            tasks.setdefault(sample.task, []).append(index)
        return tasks


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
    arrays = {name: np.asarray(values[stored]) for name, stored in _STORED.items()}
    return Outcomes(programs, tuple(samples), **arrays, values=lambda: values["values"], parts=None)


def outcomes_of_map(programs: Programs, samples: Sequence[Sample], mapped: MapResult) -> Outcomes:
    """The outcomes of a run. Where it is on disk, outputs stay there."""
    if mapped.out is None and mapped.values is not None:
        return outcomes_of(programs, samples, cast(Any, mapped.values))
    shape = len(samples), sum(len(program.outputs) for program in programs)
    step = np.int16 if all(len(program.nodes) < 1 << 15 for program in programs) else np.int32
    kinds = {"status": np.int8, "step": step, "category": np.int8, "equal": np.int8}
    arrays = {name: np.zeros(shape, kind) for name, kind in kinds.items()}
    some = False
    for index, part in mapped.parts():
        some = some or part is not None
        for name, stored in _STORED.items() if part is not None else ():
            arrays[name][index] = np.asarray(cast(Any, part)[stored])
    if not some:
        reason = next(iter(mapped.messages.values()), "there are no samples")
        raise InputError(f"no sample could be run: {reason}")

    def parts() -> Iterator[Ragged]:
        for index, part in mapped.parts():
            nothing = Ragged(torch.zeros(0, dtype=torch.uint8), torch.zeros(len(index) + 1, dtype=torch.int64))
            yield nothing if part is None else cast(Any, part)["values"]

    values = functools.partial(_values, mapped)
    return Outcomes(programs, tuple(samples), **arrays, values=values, parts=parts)


_STORED = {"status": "outcome", "step": "step", "category": "category", "equal": "equal"}
"""Names of the arrays, here and in what `SampleFunction` returns."""


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
