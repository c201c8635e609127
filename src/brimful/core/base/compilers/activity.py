"""When numba, Triton and torch.compile are at work: they report here, and runs listen.

A compiler is connected when it is first used, or at the start of a run where it is imported already: importing one only
to listen to it would take seconds.
"""

import contextlib
import functools
import sys
import threading
from collections.abc import Iterator
from typing import Any, Protocol


class Listener(Protocol):
    """Receives what compilers report, from any thread."""

    def begin(self, certain: bool) -> None:
        """A function is compiled from here on, or, where that is not certain, read from disk."""
        ...

    def end(self, compiled: bool) -> None:
        """It was, or it was read from disk."""
        ...


class Count:
    """A listener that counts what was compiled."""

    def __init__(self) -> None:
        self.functions = 0

    def begin(self, certain: bool) -> None:
        pass

    def end(self, compiled: bool) -> None:
        self.functions += compiled


_listeners: list[Listener] = []


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Has a listener receive what is reported while the block runs."""
    for module, connect in (("numba", connect_numba), ("triton", connect_triton), ("torch._dynamo", connect_dynamo)):
        if sys.modules.get(module) is not None:  # None: it may not be imported
            connect()
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def _begin(certain: bool = True) -> None:
    for listener in tuple(_listeners):
        listener.begin(certain)


def _end(compiled: bool = True) -> None:
    for listener in tuple(_listeners):
        listener.end(compiled)


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Reports that a function is compiled while the block runs, by whatever it is."""
    _begin()
    try:
        yield
    finally:
        _end()


@functools.cache
def connect_numba() -> None:
    """Has numba report."""
    from numba.core import event as numba_events

    class Forward(numba_events.Listener):
        def on_start(self, event: Any) -> None:
            _begin()

        def on_end(self, event: Any) -> None:
            _end()

    numba_events.register("numba:compile", Forward())


def connect_dynamo() -> None:
    """Has torch.compile report; again after `torch.compiler.reset()`, which removes what was connected."""
    from torch._dynamo.callback import callback_handler

    if _dynamo_begins not in callback_handler.start_callbacks:
        callback_handler.register_start_callback(_dynamo_begins)
        callback_handler.register_end_callback(_dynamo_ends)


def _dynamo_begins(*_arguments: Any) -> None:
    _begin()


def _dynamo_ends(*_arguments: Any) -> None:
    _end()


def connect_triton() -> "TritonHooks | None":
    """Has Triton report, where it is installed and has the hooks; those that are set stay in use."""
    try:
        return _triton_hooks()
    except (ImportError, AttributeError):  # or another thread is in the middle of importing it: the next try finds it
        return None


@functools.cache
def _triton_hooks() -> "TritonHooks":
    from triton import knobs

    hooks = TritonHooks(knobs)
    hooks.install()
    return hooks


def thread_ends() -> None:
    """Tells that nothing more is compiled on this thread: what it has begun to compile has failed."""
    hooks = connect_triton()
    if hooks is not None:
        hooks.close()


class TritonHooks:
    """The hooks by which Triton reports: before a kernel is compiled or read from its cache on disk, after it, and, in
    between, which of the two it was.

    Args:
        knobs: the module `triton.knobs`, or what has the same attributes.
    """

    def __init__(self, knobs: Any) -> None:
        self._knobs, self._thread = knobs, threading.local()
        self._before = getattr(knobs.runtime, "jit_cache_hook", None)
        self._after = getattr(knobs.runtime, "jit_post_compile_hook", None)
        self._listener = getattr(knobs.compilation, "listener", None)

    def install(self) -> None:
        self._knobs.runtime.jit_cache_hook = self._begins
        self._knobs.runtime.jit_post_compile_hook = self._ends
        self._knobs.compilation.listener = self._compiled

    def _begins(self, *arguments: Any, **options: Any) -> Any:
        if self._before is not None and (skips := self._before(*arguments, **options)):
            return skips  # nothing is compiled
        self.close()
        self._thread.open, self._thread.cached = True, False
        _begin(certain=False)
        return None

    def close(self) -> None:
        """Ends what was begun on this thread, which failed."""
        if getattr(self._thread, "open", False):
            self._thread.open = False
            _end(False)

    def _compiled(self, *arguments: Any, **options: Any) -> None:
        self._thread.cached = bool(options.get("cache_hit"))
        if self._listener is not None:
            self._listener(*arguments, **options)

    def _ends(self, *arguments: Any, **options: Any) -> Any:
        if getattr(self._thread, "open", False):
            self._thread.open = False
            _end(not self._thread.cached)
        return self._after(*arguments, **options) if self._after is not None else None
