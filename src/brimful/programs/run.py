"""Running programs over samples, on `brimful.map`."""

from __future__ import annotations

import contextlib
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..core.base.errors import ChangedError, ConfigError, DeviceError, InputError
from ..core.memory.budget import BudgetLike
from ..core.memory.devices import DeviceLike, resolve_all
from ..core.memory.garbage import frozen_heap
from ..core.memory.plan import Plan
from ..core.runs.compiling import watch_compiling
from ..core.runs.events import Event, Events, Planned, Sink, Warned
from ..core.runs.log_state import RunClock
from ..core.runs.progress import sink_for
from ..engine.map import map, plan_map
from ..engine.map.result import MapResult
from .data.read import read_tasks
from .data.tasks import Sample, as_samples, samples_of
from .execution.sequential import ON_ERROR
from .executors.choice import CPU, Choice, Measurement, fixed_choice, remember_run
from .executors.memory import batched_cost
from .executors.sample_function import SampleFunction
from .executors.usage import RunUsage, read_usage
from .language.graph import Graph
from .loading import Programs, load
from .outcomes import outcomes_of_map
from .result import ProgramResult
from .store import write_store

EXECUTORS = ("auto", "batched", "sequential")

_BATCHES = 16  # per process of the sequential executor, at least, so that all end together
_MOST = 64  # samples of a batch of it: what is lost by an interruption


def run(
    programs: Programs | str | Path,
    samples: str | Path | Sequence[Any],
    *,
    split: str = "training",
    executor: str = "auto",
    on_error: str = "default",
    pair_by_name: bool = False,
    budget: BudgetLike = None,
    device: DeviceLike = "auto",
    cluster: str | None = None,
    workers: int | str = "auto",
    batch_size: int | str = "auto",
    out: str | Path | None = None,
    resume: bool = True,
    progress: bool | Callable[[Event], None] | None = None,
    cancel: threading.Event | None = None,
) -> ProgramResult:
    """Runs programs on samples.

    Args:
        programs: what `load` gave, or a file of programs.
        samples: "arcagi", "arcagi2", a folder or file of JSON tasks; or tasks, or (task_id, S, I, C) per sample.
        split: of a dataset: "training", "evaluation" or "all".
        executor: "sequential" runs one sample after the other; "batched" every operation once over a batch of samples;
            "auto" measures both on a few samples, and chooses. All give the same bits.
        on_error: "default": an operation that fails yields its safe default, and the program goes on. "propagate": the
            program fails for that sample.
        pair_by_name: run a program only on the task whose id its name carries, as `solve_007bbfb7`.
        budget: memory to stay inside. See `map`.
        device: "auto", "cpu", "cuda", "cuda:all", or several as "cuda:0,cuda:1" or "cpu,cpu", with a process each.
            Where there is no GPU at all the CPU does it, with a warning.
        cluster: run on a Ray cluster; see `map`. What is measured to choose the executor is measured here.
        workers: how many processes on a CPU, on a cluster on each node; "auto" uses all cores where that pays.
        batch_size: samples of a batch, or "auto".
        out: a run directory: results are written to it while they come, and the run can be resumed, also by another
            executor.
        resume: go on with a run that the directory holds.
        progress: None or True shows it, False is silent, a function gets the events.
        cancel: set from any thread, it ends the run after the batch at hand.

    Returns:
        Outputs, status, failures and scores. A program that fails on a sample does not raise: its status says so.

    Example:
        >>> from brimful import programs
        >>> mirror = programs.loads("def solve_m(I):\\n    O = vmirror(I)\\n    return O")
        >>> sample = ("m", (), ((1, 2), (3, 4)), ((2, 1), (4, 3)))
        >>> result = programs.run(mirror, [sample], progress=False)
        >>> result.outputs[0][0], int(result.outcomes.equal[0, 0])
        (((2, 1), (4, 3)), 1)
    """
    options = _Options(split, executor, on_error, pair_by_name, budget, device, workers, batch_size, cluster)
    sink = sink_for(progress)
    prepared = _prepare(programs, samples, options, sink)
    clock = RunClock()
    events = Events() if sink is None else Events(sink)
    with frozen_heap(), watch_compiling(events, "programs run", clock):
        choice = prepared.choose(measure=True)
    choice = replace(choice, seconds=max(0.0, choice.seconds - clock.compiling), compiling=clock.compiling)

    def explained(event: Event) -> None:
        if sink is not None:
            plan = choice.explained(Plan.from_dict(event.plan)) if isinstance(event, Planned) else None
            sink(event if plan is None else replace(event, plan=plan.to_dict()))

    with frozen_heap(), tempfile.TemporaryDirectory(prefix="brimful-") as folder:
        prepared.function.usage_folder = Path(folder)
        arguments = prepared.arguments(choice)
        shown = False if sink is None else explained
        began = time.time()
        with _named_changes():
            mapped = map(**arguments, batch_invariant=True, out=out, resume=resume, progress=shown, cancel=cancel)
        usage = read_usage(Path(folder))
    remember_run(prepared.function, usage, choice, began)
    result = prepared.result(mapped, choice, usage)
    if out is not None:
        write_store(Path(out), result, on_error, pair_by_name)
    return result


def plan(
    programs: Programs | str | Path,
    samples: str | Path | Sequence[Any],
    *,
    split: str = "training",
    executor: str = "auto",
    on_error: str = "default",
    pair_by_name: bool = False,
    budget: BudgetLike = None,
    device: DeviceLike = "auto",
    cluster: str | None = None,
    workers: int | str = "auto",
    batch_size: int | str = "auto",
    probe: bool = False,
) -> Plan:
    """The plan that `run` would begin with, without running it. With `probe`, executors and memory are measured first
    on a few samples; without it, the executor is chosen by what earlier runs measured, or by a rough guess."""
    options = _Options(split, executor, on_error, pair_by_name, budget, device, workers, batch_size, cluster)
    prepared = _prepare(programs, samples, options, None)
    choice = prepared.choose(measure=probe)
    return choice.explained(plan_map(**prepared.arguments(choice), probe=probe))


@dataclass(frozen=True, slots=True)
class _Options:
    """The options that `run` and `plan` share, checked."""

    split: str
    executor: str
    on_error: str
    pair_by_name: bool
    budget: BudgetLike
    device: DeviceLike
    workers: int | str
    batch_size: int | str
    cluster: str | None

    def __post_init__(self) -> None:
        if self.executor not in EXECUTORS:
            raise ConfigError(f"executor is {self.executor!r}; choose one of {', '.join(EXECUTORS)}")
        if self.on_error not in ON_ERROR:
            raise ConfigError(f"on_error is {self.on_error!r}; choose one of {', '.join(ON_ERROR)}")
        if self.workers != "auto" and (type(self.workers) is not int or self.workers < 1):
            raise ConfigError(f"workers is {self.workers!r}; give a whole number from 1 on, or 'auto'")

    @property
    def processes(self) -> int | None:
        """How many on a CPU, where the user says so."""
        return self.workers if isinstance(self.workers, int) else None


@dataclass(slots=True)
class _Prepared:
    """Programs and samples, checked and ready for `map`."""

    programs: Programs
    samples: tuple[Sample, ...]
    options: _Options
    devices: list[torch.device]
    function: SampleFunction
    graph: Graph

    def choose(self, measure: bool) -> Choice:
        """The executor, and where it runs."""
        options = self.options
        operations = self.graph.merged // (len(self.programs) if options.pair_by_name else 1)
        several_gpus = len(self.devices) > 1 and CPU not in self.devices
        if options.executor != "auto" or several_gpus:
            executor = "batched" if several_gpus else options.executor
            return fixed_choice(self.function, executor, self.devices, operations, options.processes)
        processes = len(self.devices) if len(self.devices) > 1 else options.processes
        own = list(dict.fromkeys(self.devices))
        where = list(dict.fromkeys([CPU, *own])) if options.device == "auto" else own
        made = Measurement(self.function, operations, where, processes)
        return made.choose() if measure else made.guess()

    def arguments(self, choice: Choice) -> dict[str, Any]:
        """Those of `map`."""
        batch_size: int | str = self.options.batch_size
        if batch_size == "auto" and choice.executor == "sequential":
            batch_size = max(1, min(_MOST, len(self.samples) // (_BATCHES * len(choice.devices))))
        adapts = self.options.executor == "auto" and choice.executor == "batched" and choice.timings
        self.function.executor = "auto" if adapts else choice.executor
        self.function.timings = choice.timings
        return {
            "fn": self.function,
            "items": torch.arange(len(self.samples)),
            "budget": self.options.budget,
            "device": choice.devices if self.options.cluster is None else self._node_devices(choice),
            "cluster": self.options.cluster,
            "batch_size": batch_size,
            "cost": batched_cost(self.graph, self.samples) if choice.executor == "batched" else None,
            "name": "programs run",
        }

    def _node_devices(self, choice: Choice) -> DeviceLike:
        """Where the programs run on every node of a cluster."""
        if choice.executor == "sequential" or self.options.processes:
            return ["cpu"] * (self.options.processes or 1)
        return self.options.device

    def result(self, mapped: MapResult, choice: Choice, usage: RunUsage) -> ProgramResult:
        """The result of a map."""
        return ProgramResult(
            outcomes=outcomes_of_map(self.programs, self.samples, mapped),
            messages=mapped.messages,
            merged=self.graph.merged,
            executor=choice.executor,
            usage=usage,
            plan=choice.explained(mapped.plan),
            observed=mapped.observed,
            seconds=mapped.seconds + choice.seconds,
            compiling=mapped.compiling + choice.compiling,
        )


@contextlib.contextmanager
def _named_changes() -> Iterator[None]:
    """What is the function to `map` is programs and samples to the user."""
    try:
        yield
    except ChangedError as error:
        others = "the programs, the samples, on_error or pair_by_name are not what they were"
        raise ChangedError(re.sub(r"fn was '.*?' and is now '.*?'", others, str(error))) from error


def _prepare(
    programs: Programs | str | Path, samples: str | Path | Sequence[Any], options: _Options, sink: Sink | None
) -> _Prepared:
    """Programs and samples as `run` is given them, read and checked."""
    loaded = programs if isinstance(programs, Programs) else load(programs)
    if not len(loaded):
        raise InputError("no programs; give at least one")
    chosen = samples_of(read_tasks(samples, options.split)) if isinstance(samples, str | Path) else as_samples(samples)
    if not chosen:
        raise InputError("no samples; give at least one")
    flagged = [sample for sample in chosen if sample.problem is not None]
    if flagged and sink is not None:
        said = f"{len(flagged):,} of {len(chosen):,} samples are flagged, and not run"
        sink(Warned(message=f"{said}; the first, of task {flagged[0].task}: {flagged[0].problem}"))
    function = SampleFunction(loaded, chosen, options.on_error, options.pair_by_name)
    devices = _devices(options, sink)
    return _Prepared(loaded, tuple(chosen), options, devices, function, loaded.merge())


def _devices(options: _Options, sink: Sink | None) -> list[torch.device]:
    """Where the programs may run. The CPU stands in for a GPU that is not here, and for the nodes of a cluster."""
    if options.cluster is not None:
        return [CPU]
    try:
        named = resolve_all(options.device)
    except DeviceError as error:
        if "cuda" not in str(options.device) or torch.cuda.is_available():
            raise
        if sink is not None:
            sink(Warned(message=f"{error} The programs run on the CPU."))
        return [CPU]
    gpus = [device for device in named if device != CPU]
    if gpus and options.executor == "sequential":
        if options.device == "auto":
            return [CPU]
        raise ConfigError(f"device is {options.device!r}; the sequential executor runs on cpu, or several as cpu,cpu")
    if options.processes and ((gpus and options.device != "auto") or len(named) > 1):
        raise ConfigError(
            f"workers is {options.processes} and device {options.device!r}; name one CPU, or leave out workers: "
            "a process runs on each device named"
        )
    return named
