"""One job: its curves, plan, events, log, files and result, brought up to date as it runs."""

import asyncio
import contextlib
import logging
from collections import deque
from typing import Any

from nicegui import background_tasks, context, ui
from nicegui.client import Client

from ....core.base.errors import BrimfulError
from ...errors import NotFound
from ...jobs.job import Job, StoredEvent
from ...service import Series
from ..elements import Tag
from ..parts.job.config_view import commands_view, config_view
from ..parts.job.files_view import artifacts_view
from ..parts.job.history_view import MOST_EVENTS, MOST_LOG, History, event_entries, log_text
from ..parts.job.job_head import JobHead, use_facts
from ..parts.job.plan_view import Observe, plan_view
from ..parts.job.report_view import report_view
from ..parts.job.uses import uses_view
from ..parts.outage import Outage
from ..parts.plots.curves import CLOSER, LIVE, POINTS, Curves, memory_unit, use_of_device
from ..shell import frame
from ..threads import ask
from ..viewer import PATIENCE, Dashboard
from . import missing

_LOG = logging.getLogger("brimful.service")
_PACE = 1.0
"""Seconds between two updates of a page, at least."""

_QUIET = 15.0
_LOG_BYTES = 4096
_EVENTS = 2000
"""Events that are read at once while it runs; those that are shown are few of them."""


def install(dashboard: Dashboard) -> None:
    @ui.page("/jobs/{id}", response_timeout=PATIENCE)
    async def page(id: str) -> None:
        try:
            latest = await ask(dashboard.service.latest_event, id)
            job = await ask(dashboard.service.job, id)
        except NotFound:
            missing.build(dashboard)
            return
        with frame(dashboard, job.request.name, plots=True):
            view = _JobView(dashboard, job, latest)
            await view.build()
        view.follow(context.client)


def no_metrics(job: Job, plan: dict[str, Any] | None) -> str:
    """What is said in place of curves. Only what trains has them, and its plan says where its data are."""
    if not (plan or {}).get("tier"):
        return ""
    if job.state.ended:
        return "It has reported no metrics."
    return "No metrics yet. They appear here as the job reports them."


class _JobView:
    """The page of a job in one browser. Events are read before the job that they tell of, so that it is as new as they
    are: after the last one nothing would show it anew.

    Attributes:
        event, step, byte: up to where events, metrics and the log were shown.
        ended: whether its end was shown.
        waited, trained: of the epochs that it has seen, the seconds without a batch, and all.
        samples: the newest looks at its device; once it has ended, some of all.
        memory: the unit in which that of the device is drawn; None before any of it was.
        uploads: names of uploaded files, by id.
        looks: how many were drawn: one alone is no curve.
    """

    def __init__(self, dashboard: Dashboard, job: Job, event: int) -> None:
        self.dashboard, self.service, self.job, self.id = dashboard, dashboard.service, job, job.id
        self.event, self.step, self.byte = event, -1, 0
        self.ended = job.state.ended
        self.first: int | None = None
        self.last: int | None = None
        self.samples: deque[StoredEvent] = deque(maxlen=POINTS)
        self.plan: dict | None = None
        self.observe: Observe = lambda peak, parts: None
        self.waited, self.trained = 0.0, 0.0
        self.memory: tuple[str, float] | None = None
        self.uploads: dict[str, str] = {}
        self.looks = 0

    async def build(self) -> None:
        service, id = self.service, self.id
        (series, totals), events, self.plan, (log, self.byte) = await asyncio.gather(
            ask(service.curves, id, None, POINTS),
            ask(service.recent_events, id, MOST_EVENTS),
            ask(service.job_plan, id),
            ask(service.log, id, -MOST_LOG),
        )
        self._note(series, events)
        self.head = JobHead(service, self.job, self._changed)
        self.outage = Outage()
        self._show_head()
        self.curves = Curves([(id, self.job.request.name)], self._zoom, no_metrics(self.job, self.plan))
        self.curves.show({id: series}, {id: totals})
        self.report_section = Tag("section", classes="section", aria_label="Result")
        with self.report_section:
            Tag("h2", "Result")
            self.report_place = Tag("div", classes="stack")
            self.uses_place = Tag("div", classes="buttons")
        with Tag("div", classes="columns"):
            with Tag("section", classes="section", aria_label="Plan"):
                Tag("h2", "Plan")
                self.plan_place = Tag("div", classes="stack")
            with Tag("div", classes="column"):
                with Tag("section", classes="section", aria_label="Options"):
                    Tag("h2", "Options")
                    self.config_place = Tag("div", classes="stack")
                with Tag("section", classes="section", aria_label="Events"):
                    Tag("h2", "Events")
                    self.events = History("Events", "events", event_entries(events))
                with Tag("section", classes="section", aria_label="Log"):
                    Tag("h2", "Log")
                    self.log = History("Log", "log", [log_text(log)] if log else [])
        self.use_section = Tag("section", classes="section", aria_label="Device")
        self.use_section.set_visibility(False)
        with self.use_section:
            Tag("h2", "Device")
            self.use = Curves([(id, self.job.request.name)], None)
        with Tag("section", classes="section", aria_label="Files"):
            Tag("h2", "Files")
            self.files_place = Tag("div")
        with Tag("section", classes="section", aria_label="Run it again"):
            Tag("h2", "Run it again")
            self.commands_place = Tag("div", classes="stack")
        self._show_plan()
        await self._show_results()
        with contextlib.suppress(BrimfulError):
            self.uploads = {one.id: one.name for one in await ask(service.uploads)}
        self._show_config(None)

    def follow(self, client: Client) -> None:
        """Brings the page up to date until it is closed."""
        task = background_tasks.create(self._follow(client), name=f"follow job {self.id}")
        client.on_delete(task.cancel)

    async def _follow(self, client: Client) -> None:
        await client.connected(timeout=60)
        declared = await self.dashboard.schemas.command(self.job.request.workload, self.job.request.command)
        samples = await ask(self.service.samples, self.id, POINTS)
        with client:
            self._show_config(declared)
            self._show_use(samples)
            await self._show_uses()
            self._keep(samples)
            self._show_head()
        with self.dashboard.feed.reading(self.id):
            while not self.dashboard.feed.closing:
                await self.dashboard.feed.wait(self.id, self.event, _QUIET)
                try:
                    with client:
                        await self.outage.waited(self._updated(client))
                except NotFound:
                    with client:
                        ui.navigate.to("/")
                    return
                except BrimfulError as error:  # the next look may find the database again
                    with client:
                        self.outage.show(error)
                except Exception:  # a mistake of ours: the page goes on with what can be shown
                    _LOG.exception("the page of job %s could not be brought up to date", self.id)
                    await asyncio.sleep(_QUIET)
                await asyncio.sleep(_PACE)

    async def _updated(self, client: Client) -> None:
        """`_update` in a task of its own: elements are made where their task says."""
        with client:
            await self._update()

    async def _update(self) -> None:
        service, id = self.service, self.id
        latest = await ask(service.latest_event, id)
        start = max(self.event, latest - _EVENTS)
        events = await ask(service.events, id, start, _EVENTS)
        # From the last step on: others may have come for it.
        series = await ask(service.metrics, id, None, LIVE, self.step) if events else {}
        text, after = await ask(service.log, id, self.byte, _LOG_BYTES)
        self.job = await ask(service.job, id)
        ended = self.job.state.ended and not self.ended
        if events:
            self.event = events[-1].id
            self._note(series, events)
            if series and not ended:
                self.curves.append(id, series)
            self.events.append(event_entries(events))
            self._show_use([event for event in events if event.kind == "sampled"])
        self.byte = after
        self.log.append([log_text(text)] if text else [])
        self._show_head()
        if any(event.kind == "planned" for event in events):
            self._show_plan()
        else:
            self._show_observed()
        if ended:
            self.curves.say_if_empty(no_metrics(self.job, self.plan))
            await self._zoom(self.first, self.last)
            await self._show_results()
            await self._show_uses()
            self._keep(await ask(service.samples, id, POINTS))
            self._show_head()
        self.ended = self.job.state.ended

    def _changed(self, job: Job) -> None:
        self.job = job
        self._show_head()

    def _show_head(self) -> None:
        stall = self.waited / self.trained if self.trained else None
        self.head.show(self.job, use_facts(self.samples, self.job.state.ended), stall)

    def _keep(self, samples: list[StoredEvent]) -> None:
        """Takes samples in place of those that there are; none says nothing."""
        if samples:
            self.samples = deque(samples, maxlen=POINTS)

    def _note(self, series: Series, events: list) -> None:
        self.step = max([self.step, *(points[-1][0] for points in series.values() if points)])
        for event in events:
            if event.kind == "sampled":
                self.samples.append(event)
            elif event.kind == "planned":
                self.plan = event.data.get("plan")
            elif event.kind == "epoch_done":
                self.waited += event.data.get("data_seconds") or 0.0
                self.trained += event.data.get("seconds") or 0.0

    async def _zoom(self, first: int | None, last: int | None) -> None:
        """Reads the curves again, for a part of the steps; few enough of them are exact."""
        self.first, self.last = first, last
        points = POINTS if first is None and last is None else CLOSER
        series, totals = await ask(self.service.curves, self.id, None, points, first, last)
        if last is None:
            self._note(series, [])
        self.curves.replace({self.id: series}, {self.id: totals}, (first, last))

    def _show_plan(self) -> None:
        self.curves.say_if_empty(no_metrics(self.job, self.plan))
        self.plan_place.clear()
        with self.plan_place:
            if self.plan is None:
                Tag("p", "It has made no plan yet, or has nothing to plan.", "muted")
            else:
                self.observe = plan_view(self.plan)
        self._show_observed()

    def _show_observed(self) -> None:
        peak = (self.job.summary or {}).get("observed_peak_bytes") or self.job.progress.peak
        self.observe(peak, self.job.progress.parts)

    def _show_use(self, samples: list[StoredEvent]) -> None:
        if self.memory is None:
            leased = (self.job.lease or {}).get("device_bytes") or 0
            self.memory = memory_unit(max([leased, *(event.data.get("used") or 0 for event in samples)]))
        if series := use_of_device(samples, self.memory):
            self.looks += len(samples)
            self.use_section.set_visibility(self.looks > 1)
            self.use.append(self.id, series)

    def _show_config(self, declared: dict | None) -> None:
        schema = None if declared is None else declared["schema"]
        for place in (self.config_place, self.commands_place):
            place.clear()
        with self.config_place:
            config_view(self.job, schema, self.uploads)
        with self.commands_place:
            commands_view(
                self.job, schema, str(context.client.request.base_url).rstrip("/"), self.dashboard.require_token
            )

    async def _show_uses(self) -> None:
        workloads = await self.dashboard.schemas.workloads()
        self.uses_place.clear()
        with self.uses_place:
            uses_view(self.job, workloads)

    async def _show_results(self) -> None:
        report, artifacts = {"pictures": [], "metrics": {}, "tables": {}, "rows": {}}, []
        with contextlib.suppress(BrimfulError):
            artifacts = await ask(self.service.artifacts, self.id)
            if self.job.state.ended:
                report = await ask(self.service.report, self.id)
        self.report_section.set_visibility(any(report.values()))
        self.report_place.clear()
        with self.report_place:
            report_view(self.id, report)
        self.files_place.clear()
        with self.files_place:
            artifacts_view(self.id, artifacts)
