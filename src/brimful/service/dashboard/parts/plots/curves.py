"""Curves of metrics, drawn in the browser: few points are sent, and exact ones when someone looks closer."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from nicegui.element import Element
from nicegui.events import GenericEventArguments

from ....jobs.job import StoredEvent
from ....service import Series

POINTS = 600
"""Points of a curve when it is opened."""

CLOSER = 4000
"""Points of a curve in a range that someone chose."""

LIVE = 20
"""Points of a curve in one update, at most."""

Points = tuple[tuple[int, float, float], ...]
"""(step, seconds since 1970, value) each; tuples, since NiceGUI makes an observer of every list that it is given."""

Zoom = Callable[[int | None, int | None], Awaitable[Any]]


class Curves(Element, component="curves.js"):
    """One plot per metric, with one curve per run.

    Args:
        runs: id and name of each run.
        on_zoom: called with the first and the last step that are to be shown; None for all. Without it, curves are
            drawn over time as they are, and there is nothing to choose.
        empty: what is said where there are none; nothing is shown without it.
    """

    def __init__(self, runs: Sequence[tuple[str, str]], on_zoom: Zoom | None, empty: str = "") -> None:
        super().__init__()
        self._props["plain"], self._props["empty"] = on_zoom is None, empty
        self._props["runs"] = [{"id": id, "name": name} for id, name in runs]
        self._props["series"], self._props["totals"] = {}, {}

        async def zoom(event: GenericEventArguments) -> None:
            if on_zoom is None:
                return
            first, last = event.args
            await on_zoom(None if first is None else int(first), None if last is None else int(last))

        self.on("zoom", zoom)

    def say_if_empty(self, text: str) -> None:
        """Changes what is said where there are no curves."""
        if self._props["empty"] != text:
            with self._props.suspend_updates():  # the curves that it was made with would be sent again
                self._props["empty"] = text
            self.run_method("sayIfEmpty", text)

    def show(self, series: Mapping[str, Series], totals: Mapping[str, Mapping[str, int]]) -> None:
        """Shows curves by run, in place of those that were there.

        Args:
            totals: how many points each has that was down-sampled or not, by run.
        """
        self._props["totals"] = totals
        self._props["series"] = {run: _rounded(curves) for run, curves in series.items()}

    def replace(
        self,
        series: Mapping[str, Series],
        totals: Mapping[str, Mapping[str, int]],
        steps: tuple[int | None, int | None],
    ) -> None:
        """The same while the page is open, without keeping a second copy here.

        Args:
            steps: the first and the last that were asked for; where others have been since, nothing happens.
        """
        self.run_method("replace", {run: _rounded(curves) for run, curves in series.items()}, totals, steps)

    def append(self, run: str, series: Series) -> None:
        """Adds points to the ends of a run's curves."""
        self.run_method("append", run, _rounded(series))


def _rounded(series: Series) -> dict[str, Points]:
    """As few characters as show the same curve."""
    return {
        name: tuple((step, round(time, 1), float(f"{value:.6g}")) for step, time, value in points)
        for name, points in series.items()
    }


def memory_unit(most: int) -> tuple[str, float]:
    """The unit in which so many bytes are drawn, and how many of it a byte is."""
    return ("GB", 1e-9) if most >= 10**10 else ("MB", 1e-6)


def use_of_device(samples: Iterable[StoredEvent], memory: tuple[str, float]) -> Series:
    """Looks at a device as curves: memory in use, utilisation and power, each where it is known.

    Args:
        memory: the unit in which it is drawn, as `memory_unit` gives it.
    """
    unit, scale = memory
    known = {f"memory, {unit}": ("used", scale), "utilisation, %": ("utilisation", 100.0), "power, W": ("watts", 1.0)}
    series: Series = {}
    for event in samples:
        for name, (key, scale) in known.items():
            if isinstance(value := event.data.get(key), int | float):
                series.setdefault(name, []).append((event.id, event.time, value * scale))
    return series
