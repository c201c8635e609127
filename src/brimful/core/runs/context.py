"""What a run gets from whoever started it: where its events go, and a way to be cancelled."""

import threading
from dataclasses import dataclass, field

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
