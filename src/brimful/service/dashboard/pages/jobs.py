"""All jobs: a page of them at a time, filtered, sorted and searched on the server, kept up to date."""

import contextlib
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from ....core.base.errors import BrimfulError
from ....core.declare import registry
from ...errors import Invalid
from ...jobs.job import JobFilter, JobPage
from ...jobs.state import JobState
from ..elements import VALUE, Tag, button, link, set_attributes
from ..notices import notify
from ..parts.first_visit import first_visit
from ..parts.jobs_table import JobsTable
from ..parts.outage import Outage
from ..parts.run_choice import MOST_RUNS
from ..shell import frame
from ..threads import ask
from ..values import job_row
from ..viewer import PATIENCE, Dashboard, change, may_change

PAGE_ROWS = 25
_REFRESH = 2.0
_GROUPS: dict[str, tuple[JobState, ...]] = {
    "": (),
    "waiting": (JobState.QUEUED, JobState.PAUSED, JobState.PAUSING),
    "running": (JobState.RUNNING, JobState.PAUSING, JobState.CANCELLING),
    "finished": (JobState.FINISHED,),
    "failed": (JobState.FAILED,),
    "cancelled": (JobState.CANCELLED,),
}


def install(dashboard: Dashboard) -> None:
    @ui.page("/", title="Jobs", response_timeout=PATIENCE)
    async def page(state: str = "", workload: str = "", text: str = "", sort: str = "-created") -> None:
        view = _JobsView(dashboard, state if state in _GROUPS else "", workload, text, sort)
        with frame(dashboard, "Jobs", "/"):
            await view.build()

    @ui.page("/examples", title="Examples", response_timeout=PATIENCE)
    async def examples() -> None:
        with frame(dashboard, "Examples"):
            await first_visit(dashboard.service, "Examples")


class _JobsView:
    """The list that one browser looks at."""

    def __init__(self, dashboard: Dashboard, group: str, workload: str, text: str, sort: str) -> None:
        self.service = dashboard.service
        self.group, self.workload, self.text, self.sort = group, workload, text, sort
        self.cursors: list[str | None] = [None]
        self.selected: list[str] = []
        self.starting = False

    async def read(self) -> JobPage:
        filter = JobFilter(
            states=_GROUPS[self.group],
            workload=self.workload or None,
            text=self.text or None,
            sort=self.sort,
            limit=PAGE_ROWS,
            cursor=self.cursors[-1],
        )
        try:
            return await ask(self.service.jobs, filter)
        except Invalid:  # an order or a page that a link names and that there is not
            self.sort = "-created"
            self.cursors = [None]
            return await ask(self.service.jobs, replace(filter, sort=self.sort, cursor=None))

    async def build(self) -> None:
        page = await self.read()
        if page.total == 0 and not (self.group or self.workload or self.text):
            await first_visit(self.service, starting=self._starting)
            ui.timer(_REFRESH, self._wait_for_the_first, immediate=False)
            return
        with Tag("div", classes="title"):
            Tag("h1", "Jobs")
            self.total = Tag("span", "", "muted", aria_live="polite")
            link("Examples", "/examples", "button quiet")
            link("New job", "/new", "button primary")
        self.outage = Outage()
        self._filters(sorted({job.request.workload for job in page.jobs}))
        with Tag("div", classes="selection", role="group", aria_label="Selected jobs") as self.bar:
            self.count = Tag("span", "")
            if may_change():
                button("Cancel", self._cancel)
            self.compare = button("Compare", self._compare)
            button("Clear", lambda: self.table.clear(), "button quiet")
        self.bar.set_visibility(False)
        rows = [job_row(job) for job in page.jobs]
        self.table = JobsTable(rows, self.sort, self._sort, self._select)
        self.empty = Tag("p", "No job matches.", "empty")
        with Tag("nav", classes="pages", aria_label="Pages of jobs"):
            self.place = Tag("span", "", "muted", role="status")
            self.back = button("Previous", self._previous)
            self.forth = button("Next", self._next)
        self._show(page, rows)
        ui.timer(_REFRESH, self._refresh, immediate=False)

    def _filters(self, workloads: list[str]) -> None:
        with Tag("form", classes="filters", role="search").on("submit.prevent", lambda: None, []):
            Tag("label", "Search", "unseen", for_="search")
            search = Tag("input", classes="input", id="search", type="search", placeholder="Search by name or id")
            set_attributes(search, value=self.text or None)
            search.on("input", self._search, js_handler=VALUE, throttle=0.3, leading_events=False)
            with Tag("fieldset", classes="segments"):
                Tag("legend", "State", "unseen")
                for group in _GROUPS:
                    with Tag("label"):
                        checked = group == self.group
                        choice = Tag("input", type="radio", name="state", value=group, checked=checked)
                        choice.on("change", self._choose_state, js_handler=VALUE)
                        Tag("span", group or "all")
            with Tag("label", "Workload "), Tag("select", classes="input") as select:
                for name in dict.fromkeys(["", self.workload, *workloads, *registry.names()]):
                    Tag("option", name or "all", value=name, selected=name == self.workload)
            select.on("change", self._choose_workload, js_handler=VALUE)

    async def _search(self, event: Any) -> None:
        self.text = str(event.args)[:200]
        await self._restart()

    async def _choose_state(self, event: Any) -> None:
        self.group = event.args if event.args in _GROUPS else ""
        await self._restart()

    async def _choose_workload(self, event: Any) -> None:
        self.workload = str(event.args)[:100]
        await self._restart()

    async def _sort(self, sort: str) -> None:
        self.sort = sort
        await self._restart()

    async def _restart(self) -> None:
        """Reads the first page of another list, and names it in the address."""
        self.cursors = [None]
        chosen = {"state": self.group, "workload": self.workload, "text": self.text}
        chosen |= {"sort": self.sort} if self.sort != "-created" else {}
        given = urlencode({name: value for name, value in chosen.items() if value})
        ui.navigate.history.replace(f"/?{given}" if given else "/")
        await self._refresh()

    async def _previous(self) -> None:
        if len(self.cursors) > 1:
            self.cursors.pop()
            await self._refresh()

    async def _next(self) -> None:
        if self.following is not None:
            self.cursors.append(self.following)
            await self._refresh()

    async def _refresh(self) -> None:
        page = await self.outage.during(self.read())
        if page is None:
            return
        rows = [job_row(job) for job in page.jobs]
        self.table.show(rows, self.sort)
        self._show(page, rows)

    def _show(self, page: JobPage, rows: list[dict[str, Any]]) -> None:
        self.following = page.next
        text = f"{page.total:,} {'job' if page.total == 1 else 'jobs'}"
        if self.total.text != text:
            self.total.set_text(text)
        first = PAGE_ROWS * (len(self.cursors) - 1)
        place = f"{first + 1:,} to {first + len(rows):,}, page {len(self.cursors):,} of {-(-page.total // PAGE_ROWS):,}"
        if self.place.text != place:
            self.place.set_text(place)
        self.place.set_visibility(page.total > PAGE_ROWS)
        self.empty.set_visibility(not rows)
        self.back.set_visibility(len(self.cursors) > 1)
        self.forth.set_visibility(page.next is not None)

    def _select(self, ids: list[str]) -> None:
        self.selected = ids
        self.bar.set_visibility(bool(ids))
        too_many = f"; {MOST_RUNS} at most can be compared" if len(ids) > MOST_RUNS else ""
        self.count.set_text(f"{len(ids):,} selected{too_many}")
        set_attributes(self.compare, disabled=bool(too_many) or None)

    async def _wait_for_the_first(self) -> None:
        """Shows the list as soon as there is a job, wherever it came from."""
        with contextlib.suppress(BrimfulError):  # the database is away
            if (await self.read()).total and not self.starting:
                ui.navigate.to("/")

    def _starting(self, begun: bool) -> None:
        """Someone starts an example: its own page follows, and not the list."""
        self.starting = begun

    async def _cancel(self) -> None:
        cancelled = [id for id in self.selected if await change(self.service.cancel, id) is not None]
        if cancelled:
            notify(f"{len(cancelled)} cancelled" if len(cancelled) > 1 else "Cancelled")
        await self._refresh()

    def _compare(self) -> None:
        ui.navigate.to(f"/compare?{urlencode({'jobs': ','.join(self.selected)})}")
