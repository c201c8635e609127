"""Runs beside each other: their curves, what their options differ in, and their results."""

from collections.abc import Sequence
from typing import Any

from nicegui import ui

from ...errors import NotFound
from ...jobs.job import Job
from ...service import Series
from ..elements import Tag, table
from ..parts.live_table import LiveTable
from ..parts.metric_summary import Extent, extents, metric_rows
from ..parts.outage import Outage
from ..parts.plots.curves import CLOSER, LIVE, POINTS, Curves
from ..parts.run_choice import MOST_RUNS, RunChoice
from ..shell import frame
from ..threads import ask
from ..values import result_name, result_value
from ..viewer import PATIENCE, Dashboard

_PACE = 2.0
_NO_METRICS = "No metrics yet. They appear here as the runs report them."
_OF_ANY_RUN = ("seconds", "compiling_seconds", "predicted_peak_bytes", "observed_peak_bytes", "budget_bytes")


def install(dashboard: Dashboard) -> None:
    @ui.page("/compare", title="Compare", response_timeout=PATIENCE)
    async def page(jobs: str = "") -> None:
        ids = list(dict.fromkeys(id for id in jobs.split(",") if id))
        with frame(dashboard, "Compare", "/compare", plots=True):
            if len(ids) > MOST_RUNS:
                Tag("p", f"{MOST_RUNS} runs can be compared; these are the first of {len(ids):,}.", "message")
            await _Comparison(dashboard).build(ids[:MOST_RUNS])


class _Comparison:
    """The page in one browser.

    Attributes:
        steps: of each run, up to where its curves were shown.
        extents: of each run, what is known of its metrics.
        range: the first and the last step that are shown; None each for all.
        unread: whether one has ended whose end was not read yet.
    """

    def __init__(self, dashboard: Dashboard) -> None:
        self.service = dashboard.service
        self.runs: list[Job] = []
        self.steps: dict[str, int] = {}
        self.extents: dict[str, dict[str, Extent]] = {}
        self.range: tuple[int | None, int | None] = (None, None)
        self.unread = False

    async def build(self, ids: list[str]) -> None:
        for id in ids:
            try:
                self.runs.append(await ask(self.service.job, id))
            except NotFound:
                Tag("p", f"There is no job {id[:50]}.", "message failed")
        Tag("h1", "Compare")
        self.outage = Outage()
        self.mixed = len({job.request.workload for job in self.runs}) > 1
        if self.mixed:
            Tag("p", "These runs are of different workloads: only what they have in common can be compared.", "message")
        if len(self.runs) == 1:
            Tag("p", "This is one run. Add another below to compare it with.", "message")
        if self.runs:
            self.names = run_names(self.runs)
            ids = [job.id for job in self.runs]
            empty = "" if all(job.state.ended for job in self.runs) else _NO_METRICS
            self.curves = Curves(list(zip(ids, self.names, strict=True)), self._zoom, empty)
            self.curves.show(*await self._read(None, None))
            with Tag("div", classes="columns results"):
                with Tag("section", classes="section", aria_label="Options that differ"):
                    Tag("h2", "Options that differ")
                    options = of_all([job.request.config for job in self.runs], self.mixed)
                    nothing = "All options are the same." if len(self.runs) > 1 else "There is nothing to compare with."
                    _differences(self.names, options, nothing)
                with Tag("section", classes="section", aria_label="Results"):
                    Tag("h2", "Results")
                    self.results = LiveTable("Results by run", ("Name", *self.names), "", "table plain runs")
            self._show_results()
        workload = self.runs[0].request.workload if self.runs and not self.mixed else None
        await RunChoice(self.service, self.runs, workload).build()
        if any(not job.state.ended for job in self.runs):
            self.timer = ui.timer(_PACE, self._refresh, immediate=False)

    async def _read(self, first: int | None, last: int | None) -> tuple[dict[str, Any], dict[str, dict[str, int]]]:
        points = POINTS if first is None and last is None else CLOSER
        found = [await ask(self.service.curves, job.id, None, points, first, last) for job in self.runs]
        series = of_all([curves for curves, _ in found], self.mixed)
        self.common = set(series[0])
        ids = [job.id for job in self.runs]
        for id, curves in zip(ids, series, strict=True):
            self._note(id, curves)
        return dict(zip(ids, series, strict=True)), dict(zip(ids, [totals for _, totals in found], strict=True))

    def _note(self, id: str, curves: Series) -> None:
        self.steps[id] = max([self.steps.get(id, -1), *(points[-1][0] for points in curves.values() if points)])
        self.extents[id] = extents(self.extents.get(id, {}), curves)

    async def _zoom(self, first: int | None, last: int | None) -> None:
        self.range = first, last
        self.curves.replace(*await self._read(first, last), (first, last))

    async def _refresh(self) -> None:
        await self.outage.during(self._update())

    async def _update(self) -> None:
        """Adds what runs that go on have reported since; their ends are read anew."""
        for place, before in enumerate(self.runs):
            if before.state.ended:
                continue
            try:
                job = await ask(self.service.job, before.id)
                new = await ask(self.service.metrics, job.id, None, LIVE, self.steps[job.id] + 1)
            except NotFound:
                continue  # it is deleted: what is shown stays
            self.runs[place] = job
            self.unread = self.unread or job.state.ended
            shown = {name: points for name, points in new.items() if not self.mixed or name in self.common}
            if shown:
                self._note(job.id, shown)
                self.curves.append(job.id, shown)
        if self.unread:
            self.curves.replace(*await self._read(*self.range), self.range)
            self.unread = False
        self._show_results()
        if all(job.state.ended for job in self.runs):
            self.timer.deactivate()

    def _show_results(self) -> None:
        results = of_all([_numbers(job) for job in self.runs], self.mixed)
        metrics = metric_rows([self.extents[job.id] for job in self.runs])
        state, *others = _rows(results)
        shown = [
            (name, *("" if value is None else result_value(name, value) for value in values))
            for name, values in metrics
        ]
        self.results.show([state, *shown, *others])


def run_names(runs: Sequence[Job]) -> list[str]:
    """Their names; where several have the same, with the end of their ids."""
    names = [job.request.name for job in runs]
    return [
        f"{job.request.name} ({job.id[-6:]})" if names.count(job.request.name) > 1 else job.request.name for job in runs
    ]


def of_all(values: list[dict[str, Any]], mixed: bool) -> list[dict[str, Any]]:
    """Of runs of different workloads, what all of them have."""
    if not mixed:
        return values
    return [{name: one[name] for name in one if all(name in other for other in values)} for one in values]


def _numbers(job: Job) -> dict[str, Any]:
    summary = job.summary or {}  # the database keeps no order of names
    last = [name for name in _OF_ANY_RUN if name in summary]
    names = [*sorted(summary.keys() - set(last)), *last]
    shown = {"state": job.state.value, **{name: summary[name] for name in names if name != "state"}}
    return {name: value for name, value in shown.items() if value is not None and not isinstance(value, dict | list)}


def _rows(values: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """A row per name, a column per run."""
    names = list(dict.fromkeys(name for one in values for name in one))
    return [
        (result_name(name), *(result_value(name, one[name]) if name in one else "" for one in values)) for name in names
    ]


def _differences(runs: Sequence[str], options: list[dict[str, Any]], nothing: str) -> None:
    """The options that are not the same in all runs."""
    if shown := [row for row in _rows(options) if len(set(row[1:])) > 1]:
        table("Options by run", ("Name", *runs), shown, "table plain runs")
    else:
        Tag("p", nothing, "muted")
