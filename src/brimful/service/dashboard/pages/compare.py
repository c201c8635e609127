"""Runs beside each other: their curves, what their options differ in, and their results."""

from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from ...errors import NotFound
from ...jobs.job import Job, JobFilter
from ..elements import Tag, link, table
from ..parts.curves import CLOSER, POINTS, Curves
from ..shell import frame
from ..threads import ask
from ..values import result_value
from ..viewer import PATIENCE, Dashboard

_MOST = 8
_OFFERED = 30


_OF_ANY_RUN = ("seconds", "compiling_seconds", "predicted_peak_bytes", "observed_peak_bytes", "budget_bytes")


def install(dashboard: Dashboard) -> None:
    @ui.page("/compare", title="Compare", response_timeout=PATIENCE)
    async def page(jobs: str = "") -> None:
        ids = list(dict.fromkeys(id for id in jobs.split(",") if id))[:_MOST]
        with frame(dashboard, "Compare", "/compare", plots=True):
            await _build(dashboard, ids)


async def _build(dashboard: Dashboard, ids: list[str]) -> None:
    service = dashboard.service
    runs: list[Job] = []
    for id in ids:
        try:
            runs.append(await ask(service.job, id))
        except NotFound:
            Tag("p", f"There is no job {id[:50]}.", "message failed")
    Tag("h1", "Compare")
    mixed = len({job.request.workload for job in runs}) > 1
    if mixed:
        Tag("p", "These runs are of different workloads: only what they have in common can be compared.", "message")
    if runs:
        await _curves(dashboard, runs, mixed)
        with Tag("div", classes="columns results"):
            with Tag("section", classes="section", aria_label="Options that differ"):
                Tag("h2", "Options that differ")
                options = of_all([job.request.config for job in runs], mixed)
                _differences("Options", runs, options, "All options are the same.")
            with Tag("section", classes="section", aria_label="Results"):
                Tag("h2", "Results")
                results = of_all([_numbers(job) for job in runs], mixed)
                _differences("Results", runs, results, "No result yet.", same=True)
    await _choice(dashboard, runs, mixed)


async def _curves(dashboard: Dashboard, runs: list[Job], mixed: bool) -> None:
    async def read(first: int | None, last: int | None) -> tuple[dict[str, Any], dict[str, dict[str, int]]]:
        points = POINTS if first is None and last is None else CLOSER
        found = [await ask(dashboard.service.curves, job.id, None, points, first, last) for job in runs]
        series = of_all([curves for curves, _ in found], mixed)
        ids = [job.id for job in runs]
        return dict(zip(ids, series, strict=True)), dict(zip(ids, [totals for _, totals in found], strict=True))

    async def zoom(first: int | None, last: int | None) -> None:
        curves.replace(*await read(first, last), (first, last))

    curves = Curves([(job.id, job.request.name) for job in runs], zoom)
    curves.show(*await read(None, None))


def of_all(values: list[dict[str, Any]], mixed: bool) -> list[dict[str, Any]]:
    """Of runs of different workloads, what all of them have."""
    if not mixed:
        return values
    return [{name: one[name] for name in one if all(name in other for other in values)} for one in values]


def _numbers(job: Job) -> dict[str, Any]:
    summary = job.summary or {}  # the database keeps no order of names
    last = [name for name in _OF_ANY_RUN if name in summary]
    names = [*sorted(summary.keys() - set(last)), *last]
    shown = {"state": job.state.value, **{name: summary[name] for name in names}}
    return {name: value for name, value in shown.items() if not isinstance(value, dict | list)}


def _differences(
    title: str, runs: list[Job], values: list[dict[str, Any]], nothing: str, *, same: bool = False
) -> None:
    """A row per name, a column per run; without those that are the same in all, unless they are wanted."""
    names = list(dict.fromkeys(name for one in values for name in one))
    rows = [
        [name.replace("_", " "), *(result_value(name, one[name]) if name in one else "" for one in values)]
        for name in names
    ]
    shown = rows if same else [row for row in rows if len(set(row[1:])) > 1]
    if shown:
        table(f"{title} by run", ("Name", *(job.request.name for job in runs)), shown, "table plain")
    else:
        Tag("p", nothing, "muted")


async def _choice(dashboard: Dashboard, runs: list[Job], mixed: bool) -> None:
    """Jobs that can be added or left out, of the workload that the others are of: plain links, so that an address is a
    comparison."""
    chosen = [job.id for job in runs]
    workload = runs[0].request.workload if runs and not mixed else None
    page = await ask(dashboard.service.jobs, JobFilter(workload=workload, limit=_OFFERED))
    with Tag("section", classes="section", aria_label="Runs to compare"):
        Tag("h2", "Runs to compare" if chosen else "Choose runs to compare")

        def toggle(job: Job) -> Any:
            others = [id for id in chosen if id != job.id] if job.id in chosen else [*chosen, job.id]
            address = f"/compare?{urlencode({'jobs': ','.join(others)})}"
            word = "Leave out" if job.id in chosen else "Add"
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
