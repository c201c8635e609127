"""Progress in a notebook: one output under the cell, updated in place, as HTML where the notebook shows it."""

import html
import sys
import time
from collections.abc import Callable
from typing import Any

from .events import Started
from .progress_lines import Lines

_EVERY = 0.25  # seconds between updates
_NOTES = 5  # lines shown beside the bar, such as warnings


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook. IPython in a terminal is not."""
    module: Any = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookBar(Lines):
    """A bar in the output of a cell: done, rate, time left, memory against budget; then how it ended."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(sys.stderr, clock=clock)
        self._handle: Any = None
        self._label = self._status = ""
        self._notes: list[str] = []
        self._shown = -_EVERY

    def _start(self, event: Started) -> None:
        self._label, self._status = event.work, "starting"
        self._show()

    def _update(self, parts: tuple[str, ...]) -> None:
        self._status = ", ".join(parts)
        if self._clock() - self._shown >= _EVERY:
            self._show()

    def _epoch(self, text: str, first: bool, last: bool) -> None:
        self._label = f"{self._run.work}: {text}"
        if first or last or self._clock() - self._shown >= _EVERY:
            self._show()

    def _print(self, line: str) -> None:
        self._notes = [*self._notes, line][-_NOTES:]
        self._show()

    def _finish(self, line: str) -> None:
        self._status = ""
        self._print(line)

    def _show(self) -> None:
        from IPython.display import display

        self._shown = self._clock()
        bundle = {"text/plain": self._text(), "text/html": self._html()}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def _lines(self) -> list[str]:
        live = [f"{self._label}: {self._status}" if self._label else self._status] if self._status else []
        return [*live, *self._notes]

    def _text(self) -> str:
        return "\n".join(self._lines())

    def _html(self) -> str:
        bar = ""
        if self._status:
            share = f' value="{self._done}" max="{self._run.items}"' if self._run.items else ""
            bar = f'<progress{share} style="width: 20em"></progress> '
        return f"<div>{bar}{'<br>'.join(html.escape(line) for line in self._lines())}</div>"
