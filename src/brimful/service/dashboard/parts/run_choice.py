"""Jobs that can be added to a comparison or left out: plain links, so that an address is a comparison."""

from typing import Any
from urllib.parse import urlencode

from ....core.base.errors import BrimfulError
from ...jobs.job import Job, JobFilter
from ...service import Service
from ..elements import VALUE, Tag, link, table
from ..notices import notify
from ..threads import ask
from ..viewer import message_of

MOST_RUNS = 8
_OFFERED = 30


class RunChoice:
    """The runs of a comparison, and others of their workload, the newest of them or those that are searched for.

    Args:
        workload: whose jobs are offered; None for all.
    """

    def __init__(self, service: Service, runs: list[Job], workload: str | None) -> None:
        self._service, self._runs, self._workload = service, runs, workload
        self._text = ""

    async def build(self) -> None:
        title = "Runs to compare" if self._runs else "Choose runs to compare"
        with Tag("section", classes="section", aria_label="Runs to compare"), Tag("div", classes="stack"):
            Tag("h2", title)
            with Tag("form", classes="filters", role="search").on("submit.prevent", lambda: None, []):
                Tag("label", "Search runs", "unseen", for_="search-runs")
                hint = "Search by name or id"
                search = Tag("input", classes="input", id="search-runs", type="search", placeholder=hint)
                search.on("input", self._search, js_handler=VALUE, throttle=0.3, leading_events=False)
            self._place = Tag("div", classes="stack")
        await self._show()

    async def _search(self, event: Any) -> None:
        self._text = str(event.args)[:200]
        try:
            await self._show()
        except BrimfulError as error:
            notify(message_of(error), "error")

    async def _show(self) -> None:
        text = self._text
        filter = JobFilter(workload=self._workload, text=text or None, limit=_OFFERED)
        page = await ask(self._service.jobs, filter)
        if text != self._text:
            return  # someone has typed on
        chosen = [job for job in self._runs if text.lower() in f"{job.request.name} {job.id}".lower()]
        others = [job for job in page.jobs if job.id not in {run.id for run in self._runs}]
        self._place.clear()
        with self._place:
            if chosen or others:
                header = ("Name", "What", "State", "Choice")
                table("Jobs", header, [self._row(job) for job in (*chosen, *others)], "table carded")
                if page.total > len(page.jobs):
                    Tag("p", f"The newest {len(page.jobs)} of {page.total:,}; search for others.", "muted")
            elif text:
                Tag("p", "No job matches.", "muted")
            else:
                with Tag("p", classes="muted"):
                    Tag("span", "There are no jobs yet. ")
                    link("Start an example", "/examples")

    def _row(self, job: Job) -> tuple[Any, ...]:
        ids = [run.id for run in self._runs]
        others = [id for id in ids if id != job.id] if job.id in ids else [*ids, job.id]
        address = f"/compare?{urlencode({'jobs': ','.join(others)})}"
        word = "Leave out" if job.id in ids else "Add"
        return (
            lambda: link(job.request.name, f"/jobs/{job.id}"),
            f"{job.request.workload} {job.request.command}",
            lambda: Tag("span", job.state.value, f"state {job.state.value}"),
            f"{MOST_RUNS} at most"
            if len(others) > MOST_RUNS
            else lambda: link(word, address, "button small", aria_label=f"{word} {job.request.name}"),
        )
