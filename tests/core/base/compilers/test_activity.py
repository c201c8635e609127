"""Compilers that report, and runs that say it and count it apart."""

import contextlib
import functools
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numba
import pytest
import torch

import brimful
from brimful.core.base.compilers import activity
from brimful.core.runs import compiling, log_state
from brimful.core.runs.compiling import watch_compiling
from brimful.core.runs.events import Compiled, Events, Finished
from brimful.core.runs.log_state import RunClock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that is set by hand."""
    now = SimpleNamespace(seconds=0.0)
    fake = SimpleNamespace(perf_counter=lambda: now.seconds)
    monkeypatch.setattr(compiling, "time", fake)
    monkeypatch.setattr(log_state, "time", fake)
    return now


class FakeTriton:
    """Its knobs, and what it does with them when a kernel is first launched."""

    def __init__(self, before: Any = None) -> None:
        self.runtime = SimpleNamespace(jit_cache_hook=before, jit_post_compile_hook=None)
        self.compilation = SimpleNamespace(listener=None)
        self.compiled = 0

    def launch(self, on_compile: Any = None, cached: bool = False) -> None:
        if self.runtime.jit_cache_hook is not None and self.runtime.jit_cache_hook(key="k", already_compiled=False):
            return
        self.compiled += 1
        if on_compile is not None:
            on_compile()
        self.compilation.listener(src=None, metadata={}, metadata_group={}, times=None, cache_hit=cached)
        self.runtime.jit_post_compile_hook(key="k", already_compiled=False)


def installed(**options: Any) -> FakeTriton:
    fake = FakeTriton(**options)
    activity.TritonHooks(fake).install()
    return fake


def test_triton_says_that_it_compiles_while_it_does_and_how_long_it_took(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(compiling, "_DELAY", 0.0)
    triton, seen, announced = installed(), list[Any](), threading.Event()

    def receive(event: Any) -> None:
        seen.append(event)
        announced.set()

    def on_compile() -> None:
        assert announced.wait(20)
        clock.seconds += 7.0

    run = RunClock()
    with watch_compiling(Events(receive), "gp fit", run):
        triton.launch(on_compile)
        clock.seconds += 2.0
    assert [(event.loops, event.seconds, event.work) for event in seen] == [(0, 0.0, "gp fit"), (1, 7.0, "gp fit")]
    assert (run.compiling, run.seconds()) == (7.0, 2.0)


def test_what_triton_reads_from_disk_is_not_said(clock: SimpleNamespace):
    triton, seen, run = installed(), list[Any](), RunClock()

    def on_compile() -> None:
        clock.seconds += 7.0

    with watch_compiling(Events(seen.append), clock=run):
        triton.launch(on_compile, cached=True)
    assert not seen
    assert (run.compiling, run.seconds()) == (0.0, 7.0)


def test_a_kernel_that_fails_to_compile_does_not_count_what_follows(clock: SimpleNamespace):
    triton, run = installed(), RunClock()

    def fail() -> None:
        raise RuntimeError("out of registers")

    def compile_seconds() -> None:
        clock.seconds += 3.0

    with watch_compiling(Events(), clock=run):
        with pytest.raises(RuntimeError, match="registers"):
            triton.launch(fail)
        clock.seconds += 50.0
        triton.launch(compile_seconds)
    assert (run.compiling, run.seconds()) == (3.0, 50.0)


def test_a_kernel_that_failed_on_a_thread_which_ended_counts_no_longer(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
):
    fake, run = FakeTriton(), RunClock()
    hooks = activity.TritonHooks(fake)
    hooks.install()
    monkeypatch.setattr(activity, "connect_triton", lambda: hooks)

    def fail() -> None:
        clock.seconds += 3.0
        raise RuntimeError("out of registers")

    def launch() -> None:
        with contextlib.suppress(RuntimeError):
            fake.launch(fail)
        activity.thread_ends()

    with watch_compiling(Events(), clock=run):
        thread = threading.Thread(target=launch)
        thread.start()
        thread.join()
        clock.seconds += 50.0
    assert (run.compiling, run.seconds()) == (0.0, 53.0)  # it was not compiled
    with watch_compiling(Events(), clock=run):
        fake.launch(lambda: setattr(clock, "seconds", clock.seconds + 2.0))
    assert (run.compiling, run.seconds()) == (2.0, 53.0)


def test_hooks_that_others_set_stay_in_use(clock: SimpleNamespace):
    calls: list[str] = []

    def before(**options: Any) -> bool:
        calls.append(options["key"])
        return True  # somebody else compiles it

    triton, seen = installed(before=before), list[Any]()
    with watch_compiling(Events(seen.append)):
        triton.launch()
    assert (calls, triton.compiled, seen) == (["k"], 0, [])


def test_without_triton_nothing_is_connected_until_it_is_there(monkeypatch: pytest.MonkeyPatch):
    """Another thread may be in the middle of importing it."""
    made: list[Any] = []
    monkeypatch.setattr(activity, "TritonHooks", lambda knobs: made.append(knobs) or SimpleNamespace(install=bool))
    monkeypatch.setattr(activity, "_triton_hooks", functools.cache(activity._triton_hooks.__wrapped__))
    with monkeypatch.context() as missing:
        missing.setitem(sys.modules, "triton", None)
        assert activity.connect_triton() is None and not made
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(knobs="knobs"))
    assert activity.connect_triton() is activity.connect_triton() is not None
    assert made == ["knobs"]


def test_a_compiler_that_may_not_be_imported_is_none_to_listen_to(monkeypatch: pytest.MonkeyPatch):
    for module in ("numba", "triton", "torch._dynamo"):
        monkeypatch.setitem(sys.modules, module, None)
    with watch_compiling(Events()):
        pass


def test_a_result_counts_compiling_apart_from_its_seconds(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch):
    loops: list[Any] = []
    seen: list[Any] = []

    def add(batch: torch.Tensor) -> torch.Tensor:
        if not loops:
            loops.append(numba.njit(lambda x: x + 1))
            activity._begin()
            clock.seconds += 60.0
            activity._end()
        return batch + loops[0](0)

    result = brimful.map(add, torch.arange(6.0), device="cpu", batch_size=6, progress=seen.append)
    assert result.compiling >= 60.0 > result.seconds
    assert result.summary()["compiling_seconds"] == result.compiling
    assert "compiling=1m00s" in repr(result)
    (ended,) = (event for event in seen if isinstance(event, Finished))
    assert (ended.seconds, ended.compiling) == (result.seconds, result.compiling)
    assert [event.seconds >= 60 for event in seen if isinstance(event, Compiled)] == [False, True]
    again = brimful.map(add, torch.arange(6.0), device="cpu", batch_size=6, progress=False)
    assert again.compiling == 0.0
    assert again.summary()["compiling_seconds"] is None
    assert "compiling" not in repr(again)
