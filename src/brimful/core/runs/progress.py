"""Progress as a person sees it: a live bar on a terminal or in a notebook, plain lines in a pipe or in CI."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from .events import Sink, Started
from .notebook import NotebookBar, in_notebook
from .progress_lines import Lines


def sink_for(
    progress: bool | Sink | None, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Sink | None:
    """The sink that a `progress=` argument asks for.

    Args:
        progress: None shows progress where it fits (a bar on a terminal or in a notebook, lines elsewhere), True
            likewise, False is silent, and any callable gets the events themselves.
        stream: where to show it; by default standard error.
        clock: seconds; rates are by it.
    """
    if progress is False:
        return None
    if callable(progress):
        return progress
    if stream is None and in_notebook():
        return NotebookBar(clock)
    where = stream or sys.stderr
    return Bar(where, clock) if where.isatty() else Lines(where, clock=clock)


class Bar(Lines):
    """A live bar: done, rate, time left, memory against budget."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, clock=clock)
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[status]}", markup=False),
            console=Console(file=stream),
            transient=True,
        )
        self._task = self._bar.add_task("", total=None, status="")

    def close(self) -> None:
        self._bar.stop()

    def _start(self, event: Started) -> None:
        state = {"description": event.work, "total": event.items, "completed": event.done, "status": "starting"}
        self._bar.update(self._task, **state)
        self._bar.start()

    def _update(self, parts: tuple[str, ...]) -> None:
        self._bar.update(self._task, completed=self._done, status="  ".join(parts))

    def _epoch(self, text: str, first: bool, last: bool) -> None:
        self._bar.update(self._task, description=f"{self._run.work}: {text}")

    def _print(self, line: str) -> None:
        self._bar.console.print(line, highlight=False, markup=False)
