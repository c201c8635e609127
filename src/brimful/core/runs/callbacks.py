"""Callbacks: objects with the usual methods, or functions of events, as sinks of the event stream.

    on_train_begin(event)            Started
    on_batch_end(event)              BatchDone
    on_epoch_end(epoch, values)      EpochDone: its number from 1, and the loss, learning rate and metrics by name
    on_train_end(event)              Finished
    on_event(event)                  every event

`on_train_start` and `on_fit_end`, and the like, are other names of theirs.
"""

from collections.abc import Callable, Iterable
from typing import Any, cast

from ..base.errors import ConfigError
from .events import BatchDone, EpochDone, Event, Finished, Sink, Started
from .progress import sink_for

_METHODS: dict[type[Event], tuple[str, ...]] = {
    Started: ("on_train_begin", "on_train_start", "on_fit_start"),
    BatchDone: ("on_batch_end", "on_train_batch_end"),
    EpochDone: ("on_epoch_end", "on_train_epoch_end"),
    Finished: ("on_train_end", "on_fit_end"),
}
_NAMES = [name for names in _METHODS.values() for name in names] + ["on_event"]


class MethodCallback:
    """An object with some of the methods, as a sink."""

    def __init__(self, callback: Any) -> None:
        self._callback = callback

    def __call__(self, event: Event) -> None:
        for name in (*_METHODS.get(type(event), ()), "on_event"):
            method: Callable[..., Any] | None = getattr(self._callback, name, None)
            if method is not None and isinstance(event, EpochDone) and name != "on_event":
                method(event.epoch, dict(event.values))
            elif method is not None:
                method(event)

    def close(self) -> None:
        """Closes the object, where it can be."""
        if callable(close := getattr(self._callback, "close", None)):
            close()


def with_callbacks(progress: bool | Sink | None, callbacks: Any) -> bool | Sink | None:
    """A `progress=` argument that also calls the callbacks."""
    sinks = sinks_of(callbacks)
    if not sinks:
        return progress
    shown = sink_for(progress)

    def emit(event: Event) -> None:
        for sink in (*filter(None, [shown]), *sinks):
            sink(event)

    return emit


def sinks_of(callbacks: Any) -> list[Sink]:
    """The sinks that a `callbacks=` argument asks for: one, or several."""
    several: list[Any] = [callbacks]
    if isinstance(callbacks, Iterable) and not callable(callbacks):
        several = list(callbacks)
    sinks: list[Sink] = []
    for callback in several:
        if isinstance(callback, type):
            raise ConfigError(
                f"callbacks has the class {callback.__name__}; give an object of it: {callback.__name__}()"
            )
        if any(callable(getattr(callback, name, None)) for name in _NAMES):
            sinks.append(MethodCallback(callback))
        elif callable(callback):
            sinks.append(cast(Sink, callback))
        else:
            raise ConfigError(
                f"callbacks has a {type(callback).__name__}; give functions of an event, or objects with one of "
                f"{', '.join(_NAMES)}"
            )
    return sinks
