"""What a run gets from whoever started it: where its events go, and ways to stop it.

A run stops by Ctrl-C in the main thread, by SIGTERM, which schedulers send before they end a job, or by an event that
any thread sets. The current batch or step is finished first; a second Ctrl-C stops at once.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType

from ..base.errors import CancelledError
from .events import Events


@dataclass(frozen=True, slots=True)
class RunContext:
    """The context of a run: the same run works from Python, the command line, a thread and a service.

    Attributes:
        events: all that happens is emitted here; a run prints nothing itself.
        cancel: set from any thread, it ends the run after the current batch or step. Finished work is kept, and the
            run raises `CancelledError`.
    """

    events: Events = field(default_factory=Events)
    cancel: threading.Event = field(default_factory=threading.Event)


@contextlib.contextmanager
def stop_request(cancel: threading.Event | None = None) -> Iterator[Callable[[], bool]]:
    """Gives a function that returns whether the run was asked to stop since the block was entered.

    SIGTERM is handled where nobody else does. It may come twice, from a scheduler to all processes and from a launcher
    that passes it on, so a second one changes nothing: whoever is in a hurry sends SIGKILL.

    A run that stops raises `KeyboardInterrupt` with a message that says what was kept. Where the event cancelled it,
    the block raises a `CancelledError` with the same message instead.
    """
    interrupted = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        interrupted.set()

    def requested() -> bool:
        return interrupted.is_set() or (cancel is not None and cancel.is_set())

    in_main_thread = threading.current_thread() is threading.main_thread()
    before = {signal.SIGINT: signal.signal(signal.SIGINT, handle)} if in_main_thread else {}
    if in_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        before[signal.SIGTERM] = signal.signal(signal.SIGTERM, handle)
    try:
        yield requested
    except KeyboardInterrupt as stopped:
        if interrupted.is_set() or not requested():
            raise
        raise CancelledError(str(stopped)) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
