"""One call of `train`, on one rank: from the plan to the result."""

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import nn

from ...core.base import foreach
from ...core.base.formatting import format_bytes, format_count
from ...core.base.rng import preserve_rng
from ...core.memory import devices
from ...core.memory.cost import Cost
from ...core.memory.limit import MemoryLimit
from ...core.memory.monitor import Peak, Sampler
from ...core.memory.oom import retry_smaller
from ...core.memory.plan import Plan
from ...core.memory.probe import peak_bytes
from ...core.runs.compiling import watch_compiling
from ...core.runs.events import Events, Finished, Planned, Started, Warned
from ...core.runs.files import write_atomic
from ...core.runs.log_state import LogState, RunClock
from ..distributed.collectives import Group
from .checkpoints import CheckpointDir
from .loop import StopRequested, TrainLoop
from .planner import prepare
from .result import TrainResult
from .step.recompute import recomputing
from .task import TrainTask


def plan(task: TrainTask, group: Group, cost: Cost | None) -> Plan:
    """The plan alone; measured where no cost is given."""
    load_libraries(group.device)
    with preserve_rng(group.device), MemoryLimit(task.config.budget, group.device) as memory_limit:
        _move(task.model, memory_limit)
        return prepare(task, memory_limit, group, cost).plan


@functools.cache
def load_libraries(device: torch.device) -> None:
    """Makes one step of a small model. The first step of a process loads libraries, and they make their buffers, some
    150 MB on a CPU: once and whatever is trained, so they are there before the budget begins to count."""
    small, x = nn.Linear(1024, 1024, device=device), torch.zeros(16, 64, 64, device=device)

    def backward() -> None:
        products = torch.logsumexp((x @ x.mT).relu().exp(), 0)
        (small(x.view(64, 1024)).square().mean() + products.sum()).backward()

    with preserve_rng(device):
        peak_bytes(backward, device)
        backward()
        gradients = [parameter.grad for parameter in small.parameters() if parameter.grad is not None]
        foreach.multiply(gradients, 1 / foreach.norm(gradients).clamp(min=1).item())
        torch.optim.AdamW(small.parameters(), fused=True).step()


def _move(model: nn.Module, memory_limit: MemoryLimit) -> None:
    """The model to the device, ready to train."""
    size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    retry_smaller(
        lambda: model.to(memory_limit.device).train(),
        lambda: False,
        memory_limit.device,
        f"a model with weights of {format_bytes(size)}, in a budget of {format_bytes(memory_limit.bytes)},",
        "Use a larger budget or a smaller model",
    )


def run(
    task: TrainTask, group: Group, events: Events, checkpoints: CheckpointDir | None, stop: Callable[[], bool]
) -> TrainResult:
    """Trains as one rank; the first one writes checkpoints and emits events."""
    device, folder = group.device, None if checkpoints is None else checkpoints.run
    before = LogState() if checkpoints is None else checkpoints.before
    clock = RunClock(before.seconds)
    with contextlib.ExitStack() as stack:
        loops = stack.enter_context(_emit_finished(events, group, folder, before, clock))
        if device.type == "cuda":
            stack.enter_context(torch.cuda.device(device))
        stack.enter_context(preserve_rng(device))
        stack.enter_context(devices.kept_heap(device))
        load_libraries(device)
        if device.type == "cpu":
            devices.trim_heap()  # of what that step took
        if task.config.compile is not None and task.config.compile is not False:
            importlib.import_module("torch._dynamo")  # so that it can be watched from the start
        stack.enter_context(watch_compiling(events, task.config.name, clock))
        memory_limit = stack.enter_context(MemoryLimit(task.config.budget, device))
        _move(task.model, memory_limit)
        prepared = prepare(task, memory_limit, group, in_memory=checkpoints is None)
        peak = stack.enter_context(Peak(device, memory_limit.baseline))
        stack.enter_context(recomputing(task.model, prepared.recomputed))
        loop = TrainLoop(task, prepared, group, events, checkpoints, stop, peak, clock)
        loops.append(loop)
        loop.resume()
        clock.earlier = max(clock.earlier, loop.state.seconds)  # a log may be lost
        done = loop.samples_done()
        items = max(done, loop.epochs * (prepared.loader.plan.items or 0))  # a run that is there may have been longer
        events.emit(Planned(plan=prepared.plan.to_dict()))
        begun = {"items": items, "done": done, "budget": memory_limit.bytes, "seconds": clock.earlier}
        events.emit(Started(work=task.config.name, **begun))
        if loop.state.stopped:  # all was done before
            clock.stop(clock.earlier)
        with Sampler(events.emit, device, memory_limit.baseline) if group.is_first else contextlib.nullcontext():
            loop.run()
        weights, state, observed = loop.finish(), loop.state, peak.read()
        if excess := memory_limit.excess(observed):
            events.emit(Warned(message=excess))
        result = TrainResult(
            model=task.model,
            history=state.history,
            curve=np.asarray(state.curve, dtype=np.float32).reshape(-1, 2),
            best=state.history[state.best_epoch] if state.best_epoch is not None else None,
            epochs=state.epoch,
            steps=state.step,
            seconds=clock.stop(),
            compiling=clock.compiling,
            plan=prepared.plan,
            micro_batches=loop.step.micro_batches,
            observed=observed,
            stopped=state.stopped,
            weights=weights,
            out=folder,
        )
        if folder is not None:
            _write_history(result, folder)
        return result


def _write_history(result: TrainResult, folder: Path) -> None:
    """The history, one row per epoch, and loss and gradient norm, one row per step, for other programs."""
    steps = pa.table({"loss": result.curve[:, 0], "grad_norm": result.curve[:, 1]})
    for name, table in (("history", result.table()), ("steps", steps)):
        write_atomic(folder / f"{name}.parquet", lambda path, table=table: pq.write_table(table, path))


@contextlib.contextmanager
def _emit_finished(
    events: Events, group: Group, folder: Path | None, before: LogState, clock: RunClock
) -> Iterator[list[TrainLoop]]:
    """Emits how the run ended, whatever happens. The loop is put into the list as soon as there is one."""
    loops = list[TrainLoop]()

    def finished(state: str, message: str = "") -> None:
        done, bad = before.kept, before.bad
        for loop in loops:
            kept = None if state == "finished" else loop.kept
            done, bad = loop.samples_done() if kept is None else kept, loop.monitor.skipped
        ended = Finished(
            state=state, done=done, bad=bad, seconds=clock.seconds(), message=message, compiling=clock.compiling
        )
        events.emit(ended)

    try:
        yield loops
    except (KeyboardInterrupt, StopRequested):
        advice = (
            "nothing was kept; with out= (--out) it would be" if group.is_first else "the first rank says what was kept"
        )
        if folder is not None:
            advice = f"run the same command again to go on from {folder}"
        finished("interrupted", advice)
        steps = sum(loop.state.step for loop in loops)
        raise KeyboardInterrupt(f"interrupted after {format_count(steps)} steps; {advice}") from None
    except BaseException as error:
        with contextlib.suppress(Exception):
            finished("failed", str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise
    finished("finished")
