"""Runs beside each other: their curves, what their options differ in, and their results."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from ....core.base.errors import BrimfulError
from ...errors import NotFound
from ...jobs.job import Job, JobFilter
from ...service import Series, Service
from ..elements import Tag, link, table
from ..parts.curves import CLOSER, LIVE, POINTS, Curves
from ..shell import frame
from ..threads import ask
from ..values import result_name, result_value
from ..viewer import PATIENCE, Dashboard

MOST_RUNS = 8
_PACE = 2.0
_OFFERED = 30


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
        range: the first and the last step that are shown; None each for all.
    """

    def __init__(self, dashboard: Dashboard) -> None:
        self.service = dashboard.service
        self.runs: list[Job] = []
        self.steps: dict[str, int] = {}
        self.range: tuple[int | None, int | None] = (None, None)

    async def build(self, ids: list[str]) -> None:
        for id in ids:
            try:
                self.runs.append(await ask(self.service.job, id))
            except NotFound:
                Tag("p", f"There is no job {id[:50]}.", "message failed")
        Tag("h1", "Compare")
        self.mixed = len({job.request.workload for job in self.runs}) > 1
        if self.mixed:
            Tag("p", "These runs are of different workloads: only what they have in common can be compared.", "message")
        if len(self.runs) == 1:
            Tag("p", "This is one run. Add another below to compare it with.", "message")
        if self.runs:
            self.names = run_names(self.runs)
            self.curves = Curves(list(zip([job.id for job in self.runs], self.names, strict=True)), self._zoom)
            self.curves.show(*await self._read(None, None))
            with Tag("div", classes="columns results"):
                with Tag("section", classes="section", aria_label="Options that differ"):
                    Tag("h2", "Options that differ")
                    options = of_all([job.request.config for job in self.runs], self.mixed)
                    nothing = "All options are the same." if len(self.runs) > 1 else "There is nothing to compare with."
                    _differences("Options", self.names, options, nothing)
                with Tag("section", classes="section", aria_label="Results"):
                    Tag("h2", "Results")
                    self.results = Tag("div")
            self._show_results()
        await _choice(self.service, self.runs, self.mixed)
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

    async def _zoom(self, first: int | None, last: int | None) -> None:
        self.range = first, last
        self.curves.replace(*await self._read(first, last), (first, last))

    async def _refresh(self) -> None:
        """Adds what runs that go on have reported since; their ends are read anew."""
        ended = False
        for place, before in enumerate(self.runs):
            if before.state.ended:
                continue
            try:
                job = self.runs[place] = await ask(self.service.job, before.id)
                new = await ask(self.service.metrics, job.id, None, LIVE, self.steps[job.id] + 1)
            except BrimfulError:
                continue  # the database is away, or the job is deleted: what is shown stays
            ended = ended or job.state.ended
            shown = {name: points for name, points in new.items() if not self.mixed or name in self.common}
            if shown:
                self._note(job.id, shown)
                self.curves.append(job.id, shown)
        if ended:
            self.curves.replace(*await self._read(*self.range), self.range)
        self._show_results()
        if all(job.state.ended for job in self.runs):
            self.timer.deactivate()

    def _show_results(self) -> None:
        results = of_all([_numbers(job) for job in self.runs], self.mixed)
        if results != getattr(self, "shown", None):
            self.shown = results
            self.results.clear()
            with self.results:
                _differences("Results", self.names, results, "No result yet.", same=True)


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
    return {name: value for name, value in shown.items() if not isinstance(value, dict | list)}


def _differences(
    title: str, runs: Sequence[str], values: list[dict[str, Any]], nothing: str, *, same: bool = False
) -> None:
    """A row per name, a column per run; without those that are the same in all, unless they are wanted."""
    names = list(dict.fromkeys(name for one in values for name in one))
    rows = [
        [result_name(name), *(result_value(name, one[name]) if name in one else "" for one in values)] for name in names
    ]
    shown = rows if same else [row for row in rows if len(set(row[1:])) > 1]
    if shown:
        table(f"{title} by run", ("Name", *runs), shown, "table plain runs")
    else:
        Tag("p", nothing, "muted")


async def _choice(service: Service, runs: list[Job], mixed: bool) -> None:
    """Jobs that can be added or left out, of the workload that the others are of: plain links, so that an address is a
    comparison."""
    chosen = [job.id for job in runs]
    workload = runs[0].request.workload if runs and not mixed else None
    page = await ask(service.jobs, JobFilter(workload=workload, limit=_OFFERED))
    with Tag("section", classes="section", aria_label="Runs to compare"):
        Tag("h2", "Runs to compare" if chosen else "Choose runs to compare")

        def toggle(job: Job) -> Any:
            others = [id for id in chosen if id != job.id] if job.id in chosen else [*chosen, job.id]
            address = f"/compare?{urlencode({'jobs': ','.join(others)})}"
            word = "Leave out" if job.id in chosen else "Add"
            if word == "Add" and len(chosen) >= MOST_RUNS:
                return f"{MOST_RUNS} at most"
            return lambda: link(word, address, "button small", aria_label=f"{word} {job.request.name}")

        def name(job: Job) -> Any:
            return lambda: link(job.request.name, f"/jobs/{job.id}")

        def state(job: Job) -> Any:
            return lambda: Tag("span", job.state.value, f"state {job.state.value}")

        if not page.jobs:
            with Tag("p", classes="muted"):
                Tag("span", "There are no jobs yet. ")
                link("Start an example", "/examples")
            return
        rows = [
            (name(job), f"{job.request.workload} {job.request.command}", state(job), toggle(job)) for job in page.jobs
        ]
        table("Jobs", ("Name", "What", "State", "Choice"), rows, "table carded")
