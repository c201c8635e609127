"""Devices: memory by job over time, leases, and who waits for what."""

import asyncio
import contextlib
import time
from collections import deque
from typing import Any

from nicegui import background_tasks, core, ui

from ....core.base.errors import BrimfulError
from ....core.base.formatting import format_bytes
from ...jobs.job import Job, JobFilter, JobPage
from ...jobs.state import JobState
from ..elements import Tag, set_text
from ..parts.facts import Facts
from ..parts.live_table import Anchor, LiveTable, Row
from ..parts.outage import Outage
from ..parts.plots.device_plot import DevicePlot, Look
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

    async def build(self) -> None:
        Tag("h1", "Devices")
        self.outage = Outage()
        devices = await self.samples.read(self.dashboard)
        self.parts = {one["device"]: _DeviceView(one, tuple(self.samples.rows[one["device"]])) for one in devices}
        with Tag("section", classes="section", aria_label="Queue"):
            Tag("h2", "Queue")
            header = ("Job", "Priority", "Why it waits")
            self.queue = LiveTable("Jobs that wait", header, "No job waits.", "table carded")
            self.more = Tag("p", "", "muted")
        await self._refresh()
        ui.timer(_PACE, self._refresh, immediate=False)

    async def _read(self) -> tuple[list[dict[str, Any]], JobPage]:
        filter = JobFilter(states=(JobState.QUEUED,), sort="created", limit=_QUEUE)
        return await self.samples.read(self.dashboard), await ask(self.dashboard.service.jobs, filter)

    async def _refresh(self) -> None:
        read = await self.outage.during(self._read())
        if read is None:
            return
        devices, waiting = read
        if [one["device"] for one in devices] != list(self.parts):
            ui.navigate.reload()  # one was added or lost
            return
        for device in devices:
            self.parts[device["device"]].show(device, self.samples.rows[device["device"]][-1])
        self.queue.show([_waiting(job) for job in waiting.jobs])
        left = waiting.total - len(waiting.jobs)
        set_text(self.more, f"and {left:,} more" if left > 0 else "")
        self.more.set_visibility(left > 0)


class _DeviceView:
    """One device: what is known of it, who has leased it, and its memory over time."""

    def __init__(self, device: dict[str, Any], history: tuple[Look, ...]) -> None:
        name = device["device"]
        with Tag("section", classes="section stack", aria_label=f"Device {name}"):
            with Tag("div", classes="title"):
                Tag("h2", name)
                Tag("span", device["name"], "muted")
            self.facts = Facts("flat")
            header, nothing = ("Job", "Leased", "In use"), "No job has leased any of it."
            self.leases = LiveTable(f"Leases of {name}", header, nothing, "table numbers")
            self.plot = DevicePlot(name, device["memory_bytes"], device["budget_bytes"], history)

    def show(self, device: dict[str, Any], look: Look) -> None:
        self.facts.show(_facts(device))
        self.leases.show([_lease(one) for one in device["jobs"]])
        self.plot.add(look)


def _facts(device: dict[str, Any]) -> dict[str, str]:
    return {
        "Memory": format_bytes(device["memory_bytes"]),
        "Free": format_bytes(device["free_bytes"]),
        "For jobs": format_bytes(device["budget_bytes"]),
        "Leased": format_bytes(device["leased_bytes"]),
        "Cores": f"{device['leased_cores']} of {device['cores']}" if "cores" in device else "",
        "Utilisation": "" if device["utilisation"] is None else f"{device['utilisation']:.0%}",
        "Power": "" if device["watts"] is None else f"{device['watts']:.0f} W",
    }


def _lease(one: dict[str, Any]) -> Row:
    used = "" if one["used_bytes"] is None else format_bytes(one["used_bytes"])
    return Anchor(one["job_name"], f"/jobs/{one['id']}"), format_bytes(one["bytes"]), used


def _waiting(job: Job) -> Row:
    why = job.message or "it is planned, or next in line"
    return Anchor(job.request.name, f"/jobs/{job.id}"), str(job.request.priority), why
