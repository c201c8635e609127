"""Programs as a function of a batch of samples, for `map`: it is given the samples' indices.

It sends sources and samples as text and bytes, which are read where it runs, so that it is small on the way to a
worker process; here they are made into bytes batch by batch. Which executor runs a batch is no part of the fingerprint:
both give the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from ...core.memory.devices import kept_heap
from ...core.runs import fingerprint
from ...engine.map.batch import Batch
from ..data.tasks import Sample
from ..execution.arguments import EncodedArguments
from ..execution.encoding import decode, encode
from ..language.operation import Operation
from ..loading import Programs, SourceText, reload
from ..vocabulary.registered import install, registered
from .rows import Rows
from .runner import Runner
from .timing import Timing
from .usage import RunUsage

_AT_ONCE = 1024  # samples whose digest is taken together


@dataclass(frozen=True, slots=True)
class EncodedSample:
    """A sample as bytes; `task` is the number of its task and demonstrations."""

    task: int
    grid: bytes
    reference: bytes
    problem: str | None


class _Samples(Sequence[EncodedSample]):
    """Samples as bytes: in the process that has them each is encoded when it is asked for, elsewhere all are there."""

    def __init__(self, samples: Sequence[Sample], tasks: Sequence[int]) -> None:
        self._samples, self._tasks = samples, tasks

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        of = self._samples[index]
        return EncodedSample(self._tasks[index], encode(of.I), encode(of.C), of.problem)

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (list(self),)


class SampleFunction:
    """Runs programs on samples.

    Args:
        programs: what to run.
        samples: on what.
        on_error: see `Sequential`.
        pair_by_name: run a program only on the task whose id its name carries.
        merged: compute what programs share once.
        executor: "sequential", "batched", or "auto": the one that is quicker for a batch, by the timings.

    Attributes:
        usable: the indices of the samples without a problem.
        timings: by executor what a batch takes; for "auto".
        usage_folder: where every process writes what it did; None for nowhere.
    """

    def __init__(
        self,
        programs: Programs,
        samples: Sequence[Sample],
        on_error: str = "default",
        pair_by_name: bool = False,
        merged: bool = True,
        executor: str = "sequential",
    ) -> None:
        self.sources: tuple[SourceText, ...] = programs.sources
        used = {node.name for program in programs for node in program.nodes if node.operation is not None}
        self.operations: dict[str, Operation] = {name: own for name, own in registered().items() if name in used}
        self.on_error, self.pair_by_name, self.merged, self.executor = on_error, pair_by_name, merged, executor
        numbers = dict[tuple[str, Any], int]()
        seen = dict[tuple[str, int], int]()  # by the identity of the demonstrations: they are looked at once per task
        for sample in samples:
            if (sample.task, id(sample.S)) not in seen:
                seen[sample.task, id(sample.S)] = numbers.setdefault((sample.task, sample.S), len(numbers))
        self.tasks = tuple(name for name, _ in numbers)
        self._shown: tuple[Any, ...] | None = tuple(shown for _, shown in numbers)  # in this process
        self._encoded: tuple[bytes, ...] = ()  # and elsewhere
        numbered = [seen[sample.task, id(sample.S)] for sample in samples]
        self.samples: Sequence[EncodedSample] = _Samples(tuple(samples), numbered)
        self.usable = [at for at, sample in enumerate(samples) if sample.problem is None]
        self.timings: Mapping[str, Timing] = {}
        self.usage_folder: Path | None = None
        self._known: tuple[dict[int, int], Rows] | None = None  # rows of samples that were run before, by their index
        self._programs: Programs | None = programs  # in this process; others read the sources
        self._runner: Runner | None = None
        self._usage: RunUsage | None = None

    def __getstate__(self) -> dict[str, Any]:
        here = {"_programs": None, "_runner": None, "_usage": None, "_shown": None}
        shown = self._encoded if self._shown is None else tuple(map(encode, self._shown))
        return {**self.__dict__, **here, "_encoded": shown}

    def __fingerprint__(self, exact: bool) -> Any:
        """What decides the results; where that is not asked, what decides the memory."""
        if not exact:
            return self.digest, self.executor
        shown = self._encoded if self._shown is None else map(encode, self._shown)
        return self.digest, self.operations, self.tasks, _digests(shown), _digests(map(astuple, self.samples))

    @property
    def digest(self) -> str:
        """What is run, as a text: the same on whatever samples."""
        sources = [
            [source.text, source.vocabulary, *([] if source.taken is None else [list(source.taken)])]
            for source in self.sources
        ]
        return fingerprint.of([sources, self.on_error, self.pair_by_name, self.merged])

    def __call__(self, index_N: torch.Tensor) -> Batch:
        numbers = index_N.tolist()
        at = {} if self._known is None else self._known[0]
        new = [number for number in numbers if number not in at]
        rows = self.run(new, self._executor_for(len(new)), index_N.device) if new or not numbers else None
        if len(new) < len(numbers):
            assert self._known is not None
            parts = [self._known[1], *([] if rows is None else [rows])]
            place = at | {number: len(at) + number_at for number_at, number in enumerate(new)}
            rows = Rows.joined(parts).take([place[number] for number in numbers])
        assert rows is not None
        if self.usage_folder is not None and self._usage is not None:
            self._usage.write(self.usage_folder)
        return rows.batch()

    def keep(self, numbers: Sequence[int], rows: Rows) -> None:
        """Keeps the rows of samples that were run already, so that they are not run again."""
        at, before = ({}, None) if self._known is None else self._known
        parts = [rows] if before is None else [before, rows]
        self._known = at | {number: len(at) + place for place, number in enumerate(numbers)}, Rows.joined(parts)

    def run(self, numbers: Sequence[int], executor: str, device: torch.device) -> Rows:
        """Runs samples, by their indices."""
        if self._runner is None or self._usage is None:
            if self._programs is None:
                install(self.operations)
                self._programs = reload(self.sources)
            self._runner = Runner(self._programs, self.on_error, self.pair_by_name, self.merged)
            self._usage = RunUsage(self._runner.usage)
        samples = [self.samples[number] for number in numbers]
        tasks = {sample.task for sample in samples}
        shown = {of: decode(self._encoded[of]) if self._shown is None else self._shown[of] for of in tasks}
        arguments = [EncodedArguments(self.tasks[of.task], shown[of.task], of.grid, of.reference) for of in samples]
        problems = [sample.problem for sample in samples]
        started = time.perf_counter()
        if executor == "batched":
            with kept_heap(device):
                rows = self._runner.batched(arguments, problems, device)
        else:
            rows = self._runner.sequential(arguments, problems)
        self._usage.ran(executor, device, len(numbers), time.perf_counter() - started)
        return rows

    def timed(self, numbers: Sequence[int], executor: str, device: torch.device) -> tuple[Rows, float]:
        """The same, and the seconds that it took."""
        rows = self.run(numbers, executor, device)
        assert self._usage is not None
        return rows, self._usage.batches[-1].seconds

    def _executor_for(self, count: int) -> str:
        if self.executor != "auto":
            return self.executor
        return min(self.timings, key=lambda name: self.timings[name].at(count), default="sequential")


def _digests(values: Iterable[Any]) -> list[str]:
    """Of values, some at a time: all of them are never in memory."""
    waiting = iter(values)
    return [fingerprint.of(some) for some in iter(lambda: list(islice(waiting, _AT_ONCE)), [])]
