"""Devices: memory by job over time, leases, and who waits for what."""

import asyncio
import contextlib
import time
from collections import deque
from typing import Any

from nicegui import background_tasks, core, ui

from ....core.base.errors import BrimfulError
from ....core.base.formatting import format_bytes
from ...jobs.job import JobFilter
from ...jobs.state import JobState
from ..elements import Tag, link, table
from ..parts.device_plot import DevicePlot, Look
from ..shell import frame
from ..threads import ask
from ..viewer import PATIENCE, Dashboard

_PACE = 2.0
_KEPT = 900
_QUEUE = 25


class _Samples:
    """Memory of devices over the last half hour, looked at once for all who watch, and while nobody does.

    Attributes:
        rows: of each device, the oldest first.
    """

    def __init__(self) -> None:
        self.rows: dict[str, deque[Look]] = {}
        self.devices: list[dict[str, Any]] = []
        self._last = 0.0

    async def read(self, dashboard: Dashboard) -> list[dict[str, Any]]:
        """The devices now; those of a moment ago where someone has just looked."""
        now = time.time()
        if now - self._last >= 0.9 * _PACE:
            self.devices, self._last = await ask(dashboard.service.devices), now
            for one in self.devices:
                rows = self.rows.setdefault(one["device"], deque(maxlen=_KEPT))
                jobs = tuple((job["id"], job["job_name"], job["used_bytes"] or 0) for job in one["jobs"])
                if rows and rows[-1][2] == jobs:
                    jobs = rows[-1][2]  # the same one: mostly nothing has changed
                rows.append((round(now, 1), one["memory_bytes"] - one["free_bytes"], jobs))
        return self.devices

    async def follow(self, dashboard: Dashboard) -> None:
        """Looks at the devices until the server stops."""
        while True:
            with contextlib.suppress(BrimfulError):  # the database is away
                await self.read(dashboard)
            await asyncio.sleep(_PACE)


def install(dashboard: Dashboard) -> None:
    samples = _Samples()
    core.app.on_startup(lambda: background_tasks.create(samples.follow(dashboard), name="sample devices"))

    @ui.page("/devices", title="Devices", response_timeout=PATIENCE)
    async def page() -> None:
        with frame(dashboard, "Devices", "/devices", plots=True):
            await _DevicesView(dashboard, samples).build()


class _DevicesView:
    """The page in one browser."""

    def __init__(self, dashboard: Dashboard, samples: _Samples) -> None:
        self.dashboard, self.samples = dashboard, samples
        self.seen: Any = None

    async def build(self) -> None:
        Tag("h1", "Devices")
        devices = await self.samples.read(self.dashboard)
        self.plots: dict[str, DevicePlot] = {}
        self.places: dict[str, Tag] = {}
        for device in devices:
            name = device["device"]
            with Tag("section", classes="section stack", aria_label=f"Device {name}"):
                with Tag("div", classes="title"):
                    Tag("h2", name)
                    Tag("span", device["name"], "muted")
                self.places[name] = Tag("div", classes="stack")
                history = tuple(self.samples.rows[name])
                self.plots[name] = DevicePlot(name, device["memory_bytes"], device["budget_bytes"], history)
        with Tag("section", classes="section", aria_label="Queue"):
            Tag("h2", "Queue")
            self.queue = Tag("div")
        await self._refresh()
        ui.timer(_PACE, self._refresh, immediate=False)

    async def _refresh(self) -> None:
        devices = await self.samples.read(self.dashboard)
        if [one["device"] for one in devices] != list(self.plots):
            ui.navigate.reload()  # one was added or lost
            return
        waiting = await ask(
            self.dashboard.service.jobs, JobFilter(states=(JobState.QUEUED,), sort="created", limit=_QUEUE)
        )
        for device in devices:
            name = device["device"]
            self.plots[name].add(self.samples.rows[name][-1])
        seen = (
            [
                (one["leased_bytes"], one["budget_bytes"], one["jobs"], one["utilisation"], one["watts"])
                for one in devices
            ],
            [(job.id, job.message) for job in waiting.jobs],
        )
        if seen == self.seen:
            return
        self.seen = seen
        for device in devices:
            place = self.places[device["device"]]
            place.clear()
            with place:
                _facts(device)
        self.queue.clear()
        with self.queue:
            _queue(waiting.jobs, waiting.total)


def _facts(device: dict[str, Any]) -> None:
    facts = {
        "Memory": format_bytes(device["memory_bytes"]),
        "Free": format_bytes(device["free_bytes"]),
        "For jobs": format_bytes(device["budget_bytes"]),
        "Leased": format_bytes(device["leased_bytes"]),
        "Cores": f"{device['leased_cores']} of {device['cores']}" if "cores" in device else "",
        "Utilisation": "" if device["utilisation"] is None else f"{device['utilisation']:.0%}",
        "Power": "" if device["watts"] is None else f"{device['watts']:.0f} W",
    }
    with Tag("dl", classes="facts flat"):
        for name, text in facts.items():
            if text:
                with Tag("div"):
                    Tag("dt", name)
                    Tag("dd", text)
    if device["jobs"]:

        def job(one: dict[str, Any]) -> Any:
            return lambda: link(one["job_name"], f"/jobs/{one['id']}")

        rows = [
            (job(one), format_bytes(one["bytes"]), "" if one["used_bytes"] is None else format_bytes(one["used_bytes"]))
            for one in device["jobs"]
        ]
        table(f"Leases of {device['device']}", ("Job", "Leased", "In use"), rows, "table numbers")
    else:
        Tag("p", "No job has leased any of it.", "muted")


def _queue(jobs: Any, total: int) -> None:
    if not jobs:
        Tag("p", "No job waits.", "muted")
        return

    def name(job: Any) -> Any:
        return lambda: link(job.request.name, f"/jobs/{job.id}")

    rows = [(name(job), str(job.request.priority), job.message or "it is planned, or next in line") for job in jobs]
    table("Jobs that wait", ("Job", "Priority", "Why it waits"), rows, "table carded")
    if total > len(jobs):
        Tag("p", f"and {total - len(jobs):,} more", "muted")
