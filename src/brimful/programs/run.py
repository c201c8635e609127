"""Running programs over samples, on `brimful.map`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from ..core.base.background import cores
from ..core.base.errors import ConfigError, InputError
from ..core.memory.plan import Plan
from ..core.runs.events import Event
from ..engine.map import map, plan_map
from ..engine.map.result import MapResult
from .data.read import read_tasks
from .data.tasks import Sample, as_samples, samples_of
from .execution.sequential import ON_ERROR
from .loading import Programs, load
from .outcomes import outcomes_of
from .result import ProgramResult
from .sample_function import SampleFunction
from .store import write_store

EXECUTORS = ("auto", "batched", "sequential")

_WORTH_WORKERS = 2_000_000  # operations, of some 10 microseconds each, that repay the start of worker processes
_BATCHES = 16  # per process, at least, so that all end together
_MOST = 64  # samples of a batch: what is lost by an interruption


def run(
    programs: Programs | str | Path,
    samples: str | Path | Sequence[Any],
    *,
    split: str = "training",
    executor: str = "auto",
    on_error: str = "default",
    pair_by_name: bool = False,
    budget: Any = None,
    device: str = "auto",
    out: str | Path | None = None,
    resume: bool = True,
    progress: bool | Callable[[Event], None] | None = None,
    cancel: threading.Event | None = None,
) -> ProgramResult:
    """Runs programs on samples.

    Args:
        programs: what `load` gave, or a file of programs.
        samples: "arcagi", "arcagi2", a folder or file of JSON tasks; or tasks, or (task_id, S, I, C) per sample.
        split: of a data set: "training", "evaluation" or "all".
        executor: "sequential" runs one sample after the other; "auto" chooses.
        on_error: "default": an operation that fails yields its safe default, and the program goes on. "propagate": the
            program fails for that sample.
        pair_by_name: run a program only on the task whose id its name carries, as `solve_007bbfb7`.
        budget: memory to stay inside. See `map`.
        device: "auto" uses all cores where that pays; "cpu" one process, "cpu,cpu" two.
        out: a run directory: results are written to it while they come, and the run can be resumed.
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
    function, arguments = prepare(programs, samples, split, executor, on_error, pair_by_name, budget, device)
    mapped = map(**arguments, out=out, resume=resume, progress=progress, cancel=cancel)
    result = function.result(mapped)
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
    budget: Any = None,
    device: str = "auto",
    probe: bool = False,
) -> Plan:
    """The plan that `run` would begin with, without running it."""
    _, arguments = prepare(programs, samples, split, executor, on_error, pair_by_name, budget, device)
    return plan_map(**arguments, probe=probe)


class Prepared:
    """Programs and samples, checked and ready for `map`."""

    def __init__(self, programs: Programs, samples: Sequence[Sample], on_error: str, pair_by_name: bool) -> None:
        self.programs, self.samples = programs, tuple(samples)
        self.function = SampleFunction(programs, samples, on_error, pair_by_name)
        self.graph = programs.merge()

    def result(self, mapped: MapResult) -> ProgramResult:
        """The result of a map."""
        values: Any = mapped.values
        if values is None:
            reason = next(iter(mapped.messages.values()), "there are no samples")
            raise InputError(f"no sample could be run: {reason}")
        return ProgramResult(
            outcomes=outcomes_of(self.programs, self.samples, values),
            messages=mapped.messages,
            merged=self.graph.merged,
            plan=mapped.plan,
            observed=mapped.observed,
            seconds=mapped.seconds,
        )


def prepare(
    programs: Programs | str | Path,
    samples: str | Path | Sequence[Any],
    split: str,
    executor: str,
    on_error: str,
    pair_by_name: bool,
    budget: Any,
    device: str,
) -> tuple[Prepared, dict[str, Any]]:
    """The arguments of `run`, checked, and those of `map` that follow."""
    if executor not in EXECUTORS:
        raise ConfigError(f"executor is {executor!r}; choose one of {', '.join(EXECUTORS)}")
    if on_error not in ON_ERROR:
        raise ConfigError(f"on_error is {on_error!r}; choose one of {', '.join(ON_ERROR)}")
    loaded = programs if isinstance(programs, Programs) else load(programs)
    chosen = samples_of(read_tasks(samples, split)) if isinstance(samples, str | Path) else as_samples(samples)
    if not chosen:
        raise InputError("no samples; give at least one")
    prepared = Prepared(loaded, chosen, on_error, pair_by_name)
    processes = _devices(prepared, device, pair_by_name)
    arguments = {
        "fn": prepared.function,
        "items": torch.arange(len(chosen)),
        "budget": budget,
        "device": processes,
        "batch_size": max(1, min(_MOST, len(chosen) // (_BATCHES * len(processes)))),
        "name": "programs run",
    }
    return prepared, arguments


def _devices(prepared: Prepared, device: str, pair_by_name: bool) -> list[str]:
    """The processes to run in: all cores where the work repays their start."""
    if device != "auto":
        names = [name.strip() for name in device.split(",")]
        if any(name.split(":")[0] != "cpu" for name in names):
            raise ConfigError(f"device is {device!r}; the sequential executor runs on cpu, or several as cpu,cpu")
        return names
    work = len(prepared.samples) * (prepared.graph.merged // (len(prepared.programs) if pair_by_name else 1))
    return ["cpu"] * (cores() if work >= _WORTH_WORKERS else 1)
