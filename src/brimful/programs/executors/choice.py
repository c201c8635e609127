"""Which executor runs the samples, where, and in how many processes: by what each of them takes.

A few samples are run by each executor, and what they take is remembered for later runs of the same programs. The
results of those samples are kept. Where the work is so little that measuring would cost more than it can save, the
sequential executor runs it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from ...core.base.background import cores
from ...core.base.formatting import format_seconds
from ...core.memory.oom import error_line
from ...core.memory.plan import Plan, Rejected
from .sample_function import SampleFunction
from .timing import Timing, recall, recall_fewer, remember
from .usage import RunUsage

CPU = torch.device("cpu")
_PRIOR = {"sequential": Timing(0.0, 30e-6), "batched": Timing(3e-4, 4e-6)}  # of one operation
_WORKERS = Timing(3.0, 1.0)  # until so many worker processes have begun, where none was measured: each imports torch
_START = 1.5  # seconds that the first batch of a process takes longer: kernels are read, or compiled
_STARTED: set[torch.device] = set()  # where this process has run a batch already
_LEAST = 1e-4  # seconds per operation that the batched executor takes for the smallest batch, at best
_FIRST = 4  # samples that are run sequentially to begin with
_SLICE = 16  # the share of samples that a batch is measured on
_SMALLEST, _LARGEST = 8, 64  # samples of that batch


@dataclass(frozen=True, slots=True)
class Contender:
    """An executor on a device, and what a batch takes there; `reason`: why nothing is known of it."""

    executor: str
    device: torch.device
    timing: Timing | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        return f"{self.executor} executor" if self.executor == "sequential" else f"{self.executor} on {self.device}"

    def seconds(self, samples: int, processes: int) -> float:
        """Of a whole run."""
        if self.timing is None:
            return math.inf
        start = workers_start(processes) if processes > 1 else 0.0
        if self.executor == "batched" and (processes > 1 or self.device not in _STARTED):
            start += _START
        return start + self.timing.at(math.ceil(samples / processes))


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen.

    Attributes:
        executor: "sequential" or "batched".
        devices: one per process.
        why: in a sentence.
        rejected: the others, with the reason.
        timings: by executor, where they are known, on the devices chosen.
        seconds: that choosing took.
        compiling: seconds in which loops were compiled for it, which `seconds` of a run do not count.
    """

    executor: str
    devices: list[torch.device]
    why: str
    rejected: tuple[tuple[str, str], ...] = ()
    timings: dict[str, Timing] = field(default_factory=dict)
    seconds: float = 0.0
    compiling: float = 0.0

    def explained(self, plan: Plan) -> Plan:
        """A plan of `map` that says which executor runs, and why not another."""
        others = tuple(Rejected(name, 0, reason) for name, reason in self.rejected)
        name = f"{self.executor} executor, samples {plan.strategy}: {self.why}"
        return replace(plan, strategy=name, rejected=(*others, *plan.rejected))


def prior(executor: str, operations: int) -> Timing:
    """What a batch may take, where nothing is measured."""
    return Timing(_PRIOR[executor].fixed * operations, _PRIOR[executor].per_sample * operations)


def workers_start(processes: int) -> float:
    """Seconds until so many worker processes run their first batch: as measured in an earlier run, or a guess."""
    known = recall(_start_of(processes), "sequential", CPU)
    return _WORKERS.at(processes) if known is None else known.fixed


def _start_of(processes: int) -> str:
    return f"start of {processes} workers"


def processes_for(contender: Contender, samples: int, most: int) -> int:
    """In how many processes a contender is quickest: one, or as many as there may be."""
    if contender.device.type != "cpu" or most <= 1:
        return 1
    return most if contender.seconds(samples, most) < contender.seconds(samples, 1) else 1


def fixed_choice(
    function: SampleFunction, executor: str, devices: Sequence[torch.device], operations: int, workers: int | None
) -> Choice:
    """The choice where the user names the executor: what is left is the number of processes.

    Args:
        devices: where; one that is a CPU may become several, one per process.
        workers: how many processes on a CPU; None for as many as pay.
    """
    if len(devices) > 1 or devices[0].type != "cpu":
        return Choice(executor, list(devices), "as asked for")
    timing = recall(function.digest, executor, CPU, len(function.samples)) or prior(executor, operations)
    count = workers or processes_for(Contender(executor, CPU, timing), len(function.samples), cores())
    return Choice(executor, [CPU] * count, "as asked for")


class Measurement:
    """Runs a few samples by every contender, and chooses.

    Args:
        function: whose samples; it keeps the results.
        operations: of a sample, after merging.
        devices: where a batched executor may run.
        workers: how many processes on a CPU; None for as many as pay.
    """

    def __init__(
        self, function: SampleFunction, operations: int, devices: Sequence[torch.device], workers: int | None
    ) -> None:
        self._function, self._operations, self._devices, self._workers = function, operations, devices, workers
        step = max(1, len(function.usable) // (_FIRST + 3 * _LARGEST))
        self._waiting = function.usable[::step]  # spread over all tasks
        self._left, self._seconds = len(function.samples), 0.0

    def choose(self) -> Choice:
        """The quickest by what was remembered, or measured now."""
        sequential = self._sequential()
        whole = sequential.seconds(self._left, 1)
        known = [self._remembered(Contender("batched", device)) for device in self._devices]
        least = min(replace(of, timing=Timing(_LEAST * self._operations, 0.0)).seconds(1, 1) for of in known)
        if any(contender.timing is None for contender in known) and whole <= least:
            reason = f"not measured: sequentially they take {format_seconds(whole)}"
            return self._chosen([sequential, *(replace(of, timing=None, reason=reason) for of in known)])
        best = min((self._whole(of) for of in known if of.timing is not None), default=math.inf)
        return self._chosen([sequential, *(self._batched(contender, best) for contender in known)])

    def _whole(self, contender: Contender) -> float:
        """Seconds of all that is left, in as many processes as pay."""
        return contender.seconds(self._left, self._processes(contender))

    def _processes(self, contender: Contender) -> int:
        if contender.device != CPU:
            return 1
        return self._workers or processes_for(contender, self._left, cores())

    def guess(self) -> Choice:
        """The same without measuring: where nothing is remembered, by a rough guess."""
        contenders = [Contender("sequential", CPU), *(Contender("batched", device) for device in self._devices)]
        return self._chosen([self._guessed(contender) for contender in contenders])

    def _guessed(self, contender: Contender) -> Contender:
        known = self._remembered(contender)
        return known if known.timing else replace(known, timing=prior(contender.executor, self._operations))

    def _remembered(self, contender: Contender) -> Contender:
        function = self._function
        return replace(
            contender, timing=recall(function.digest, contender.executor, contender.device, len(function.samples))
        )

    def _sequential(self) -> Contender:
        contender = self._remembered(Contender("sequential", CPU))
        return contender if contender.timing is not None else self._measured(contender, [_FIRST])

    def _batched(self, contender: Contender, best: float) -> Contender:
        """The first batch of a process is not timed: kernels are compiled or read by it. Where fewer samples say that
        it takes longer than the best that is known, that is enough: they say too much rather than too little."""
        function = self._function
        if contender.timing is not None or not self._waiting:
            return contender
        fewer = recall_fewer(function.digest, contender.executor, contender.device, len(function.samples))
        if fewer is not None and self._whole(replace(contender, timing=fewer)) > best:
            return replace(contender, timing=fewer)
        size = min(_LARGEST, max(_SMALLEST, self._left // _SLICE))
        cold = contender.device not in _STARTED
        return self._measured(contender, [1, *([1] if cold else []), size], cold)

    def _measured(self, contender: Contender, sizes: list[int], cold: bool = False) -> Contender:
        """Runs batches of these sizes, of which the first does not count where it is cold. A contender that fails is
        none."""
        points = list[tuple[int, float]]()
        for size in sizes:
            numbers, self._waiting = self._waiting[:size], self._waiting[size:]
            if not numbers:
                break
            try:
                rows, seconds = self._function.timed(numbers, contender.executor, contender.device)
            except Exception as error:
                return replace(contender, timing=None, reason=f"it fails: {error_line(error)}")
            self._function.keep(numbers, rows)
            if contender.executor == "batched":
                _STARTED.add(contender.device)
            self._left, self._seconds = self._left - len(numbers), self._seconds + seconds
            points.append((len(numbers), seconds))
        if cold and len(points) > 1:
            points = points[1:]
        if not points:
            return replace(contender, reason="no sample was left to measure it on")
        timing = Timing.fit(points) if contender.executor == "batched" else Timing(0.0, points[0][1] / points[0][0])
        function = self._function
        remember(function.digest, contender.executor, contender.device, timing, len(function.samples))
        return replace(contender, timing=timing)

    def _chosen(self, contenders: list[Contender]) -> Choice:
        processes = [self._processes(contender) for contender in contenders]
        seconds = [of.seconds(self._left, count) for of, count in zip(contenders, processes, strict=True)]
        at = min(range(len(contenders)), key=seconds.__getitem__)
        best = contenders[at]
        rejected = tuple(
            (of.name, of.reason or f"about {format_seconds(spent)}")
            for number, (of, spent) in enumerate(zip(contenders, seconds, strict=True))
            if number != at
        )
        known = math.isfinite(seconds[at])
        why = f"about {format_seconds(seconds[at])} for {self._left} samples" if known else "nothing could be measured"
        here = [of for of in contenders if of.executor == "sequential" or of.device == best.device]
        timings = {of.executor: of.timing for of in here if of.timing is not None}
        return Choice(best.executor, [best.device] * processes[at], why, rejected, timings, self._seconds)


def remember_run(function: SampleFunction, usage: RunUsage, choice: Choice, began: float) -> None:
    """Keeps what the batches of a run took, for the next: larger ones than those that were measured to choose; and how
    long its workers took to begin.

    Args:
        began: when the run did, in seconds since 1970.
    """
    if choice.devices[0] == CPU and len(choice.devices) > 1 and usage.began:
        start = sum(usage.began) / len(usage.began) - began
        remember(_start_of(len(choice.devices)), "sequential", CPU, Timing(max(0.0, start), 0.0))
    for executor in ("sequential", "batched"):
        device = CPU if executor == "sequential" else choice.devices[0]
        here = len(choice.devices) == 1 and device in _STARTED  # the first batch found its kernels read
        timed = [
            (batch.samples, batch.seconds)
            for batch in usage.batches
            if (batch.executor, batch.device) == (executor, device.type) and batch.samples and (here or not batch.first)
        ]
        if executor == "sequential" and timed:
            per_sample = sum(seconds for _, seconds in timed) / sum(samples for samples, _ in timed)
            remember(function.digest, executor, device, Timing(0.0, per_sample))
        elif timed and executor == "batched":
            several = len({samples for samples, _ in timed}) > 1
            timing = Timing.fit(timed) if several else Timing.of_one(*timed[-1])
            remember(function.digest, executor, device, timing, len(function.samples))
        if executor == choice.executor == "batched" and len(choice.devices) == 1:
            _STARTED.add(device)
