"""Whichever executor runs, in whatever batches and processes: the same bits; a run may begin with one executor and go
on with another."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from brimful import CancelledError, programs
from brimful.core.runs.events import BatchDone, Event, Warned
from brimful.programs.executors.sample_function import SampleFunction

from ..helpers.own_operations import own_operations
from ..helpers.small import TEXT, arc_samples, small, task, tasks
from ..helpers.words import batt, guarded, solver
from ..test_run import same


@pytest.fixture
def own() -> Iterator[None]:
    with own_operations():
        yield


@pytest.mark.parametrize("options", [{}, {"on_error": "propagate"}, {"pair_by_name": True}, {"batch_size": 4}])
def test_the_batched_executor_gives_the_bits_of_the_sequential_one(options: dict[str, Any]):
    batched = small(executor="batched", **options)
    assert same(batched, small(executor="sequential", **options))
    assert batched.executor == "batched" and batched.usage.samples("batched") == 15
    assert "batched executor" in batched.plan.explain()


def test_programs_of_one_task_may_lie_apart():
    text = TEXT + solver("x = hmirror(I)", "x", name="solve_mirror_too") + solver("x = hmirror(I)", "x", name="third_a")
    loaded = programs.loads(text)
    runs = [
        programs.run(loaded, tasks(), pair_by_name=True, executor=executor, device="cpu", progress=False)
        for executor in ("batched", "sequential")
    ]
    assert same(*runs) and [value is None for value in runs[0].outputs[0]] == [False, True, True, False, True]


def test_what_escapes_and_what_is_flagged():
    text = batt(
        *guarded("t1", "first(F)", "first", "KeyError"), "t2 = vmirror(I)", "o.append((1, t2))", "s.append((t1,))"
    )
    bad = programs.Task.of("bad", {"train": [{"input": [[1]], "output": [[1]]}], "test": [{"input": [[77]]}]})
    runs = [
        programs.run(programs.loads(text + TEXT), [bad, *tasks()], executor=executor, device="cpu", progress=False)
        for executor in ("batched", "sequential")
    ]
    assert same(*runs) and list(runs[0].messages) == [1] and runs[0].outputs[0][0] is None


def test_an_operation_of_a_user_runs_row_by_row(own: None):
    loaded = programs.loads(solver("x = tall(I, TWO)", "y = cells_of(x)", "z = fill(x, ONE, y)", "z"))
    runs = [
        programs.run(loaded, arc_samples(12), executor=executor, device="cpu", progress=False)
        for executor in ("batched", "sequential")
    ]
    assert same(*runs)
    used = runs[0].usage.operations
    assert (used["tall"].rows, used["tall"].sequential) == (12, 12) and used["fill"].rows == 12
    assert runs[0].summary()["sequential_share"] == runs[0].usage.sequential_share > 0
    assert runs[1].summary()["sequential_share"] is None  # there was no batch


def test_a_run_goes_on_by_the_other_executor(tmp_path: Path):
    many, loaded = [task(f"t{number}", number) for number in range(20)], programs.loads(TEXT)
    cancel, out = threading.Event(), tmp_path / "run"

    def stop(event: Event) -> None:
        if isinstance(event, BatchDone) and event.done >= 20:
            cancel.set()

    options: dict[str, Any] = {"device": "cpu", "out": out}
    with pytest.raises(CancelledError):
        programs.run(loaded, many, executor="sequential", progress=stop, cancel=cancel, **options)
    resumed = programs.run(loaded, many, executor="batched", progress=False, **options)
    assert 0 < resumed.usage.samples("batched") < 100 and not resumed.usage.samples("sequential")
    assert same(resumed, programs.run(loaded, many, executor="sequential", device="cpu", progress=False))
    assert same(programs.load_result(out), resumed)
    assert programs.load_result(out).executor == "batched"


def test_a_missing_gpu_is_said_and_the_cpu_does_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    events = list[Event]()
    result = small(executor="batched", device="cuda", progress=events.append)
    assert same(result, small(executor="sequential"))
    (warning,) = [event.message for event in events if isinstance(event, Warned)]
    assert "sees 0 CUDA device(s)" in warning and "run on the CPU" in warning


def test_the_fingerprint_is_that_of_programs_and_samples():
    loaded = programs.loads(TEXT)
    made = [SampleFunction(loaded, small().samples, executor=name) for name in ("batched", "sequential")]
    assert made[0].__fingerprint__(True) == made[1].__fingerprint__(True)
    assert made[0].__fingerprint__(False) != made[1].__fingerprint__(False)
    assert made[0].digest != SampleFunction(programs.loads(TEXT + " "), small().samples).digest


@pytest.mark.gpu
def test_the_bits_of_the_gpu():
    assert same(small(executor="batched", device="cuda"), small(executor="sequential"))
