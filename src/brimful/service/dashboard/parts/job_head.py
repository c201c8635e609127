"""The top of a job's page: what it is, what can be done with it, and how it goes."""

import time
from collections.abc import Callable
from typing import Any

from nicegui import ui

from ....core.base.formatting import format_bytes, format_seconds
from ...jobs.job import Job
from ...jobs.state import REQUESTS, JobState
from ...service import Service
from ..elements import Tag, button, careful_button, link, set_attributes
from ..notices import notify
from ..values import fraction, memory_text, progress_text, rate, rate_text, seconds_left, seconds_taken
from ..viewer import change, may_change

_DONE = {"pause": "Pausing", "resume": "Queued again", "retry": "Queued again", "cancel": "Cancelling"}


class JobHead:
    """Title, actions and facts, each brought up to date when it changes.

    Args:
        changed: called after an action, with the job.
    """

    def __init__(self, service: Service, job: Job, changed: Callable[[Job], Any]) -> None:
        self._service, self._job, self._changed = service, job, changed
        self._facts: dict[str, tuple[Tag, Tag]] = {}
        with Tag("div", classes="title"):
            Tag("h1", job.request.name)
            Tag("span", f"{job.request.workload} {job.request.command}", "muted")
            with Tag("div", classes="buttons", role="group", aria_label="Actions"):
                self._buttons = {}
                if may_change():
                    for name in ("pause", "resume", "retry", "cancel"):
                        self._buttons[name] = button(name.capitalize(), self._action(name))
                    label = f"Delete {job.request.name}, its metrics and its files"
                    self._delete = careful_button(
                        "Delete", "Delete for good", self._really_delete, label, "button danger"
                    )
                    link("Copy and change", f"/new?copy={job.id}", "button")
        self._message = Tag("p", "", "message", role="status")
        self._bar = Tag("progress", max="1", aria_label="Progress of this job")
        self._shown = ""
        self._list = Tag("dl", classes="facts")
        self.show(job)

    def show(
        self, job: Job, sample: dict[str, Any] | None = None, tier: str | None = None, stall: float | None = None
    ) -> None:
        """Shows the job as it is now.

        Args:
            sample: the last look at its device.
            tier: where its data are.
            stall: the share of its time in which there was no batch, so far.
        """
        self._job = job
        for name, made in self._buttons.items():
            made.set_visibility(job.state in REQUESTS[name])
        if self._buttons:
            ended = job.state.ended or job.state is JobState.PAUSED
            self._delete.set_visibility(ended)
        _set_text(self._message, job.message)
        self._message.set_visibility(bool(job.message))
        self._message.classes(replace="message failed" if job.state is JobState.FAILED else "message")
        done = fraction(job)
        self._bar.set_visibility(done is not None and job.state is not JobState.FINISHED)
        if self._shown != job.state.value:
            self._bar.classes(remove=self._shown, add=job.state.value)
            self._shown = job.state.value
        if done is not None and self._bar._props.get("value") != round(done, 4):
            set_attributes(self._bar, value=round(done, 4) or "0")
        for name, text in _facts(job, sample, tier, stall).items():
            self._fact(name, text)

    def _fact(self, name: str, text: str) -> None:
        if name not in self._facts:
            with self._list, Tag("div") as group:
                Tag("dt", name)
                self._facts[name] = (group, Tag("dd", text, f"state {text}" if name == "State" else ""))
        group, shown = self._facts[name]
        if name == "State" and shown.text != text:
            shown.classes(replace=f"state {text}")
        _set_text(shown, text)
        group.set_visibility(bool(text))

    def _action(self, name: str) -> Callable[[], Any]:
        async def act() -> None:
            job = await change(getattr(self._service, name), self._job.id)
            if job is not None:
                notify(_DONE[name])
                self._changed(job)

        return act

    async def _really_delete(self) -> None:
        if await change(self._deleted, self._job.id):
            ui.navigate.to("/")

    def _deleted(self, id: str) -> bool:
        self._service.delete(id)
        return True


def _facts(
    job: Job, sample: dict[str, Any] | None = None, tier: str | None = None, stall: float | None = None
) -> dict[str, str]:
    now, sample, lease = time.time(), sample or {}, job.lease or {}
    left, took, compiling = seconds_left(job, now), seconds_taken(job, now), job.progress.compiling
    share, stall = sample.get("utilisation"), (job.summary or {}).get("stall_share", stall)
    return {
        "State": job.state.value,
        "Progress": progress_text(job),
        "Left": "" if left is None else format_seconds(max(1.0, left)).replace(".0", ""),
        "Rate": rate_text(rate(job, now)),
        "Took": format_seconds(took) if took >= 0.05 else "",
        "Of which compiling": format_seconds(compiling) if compiling >= 0.05 else "",
        "Memory": memory_text(job),
        "Device": str(lease.get("device", "")),
        "Cores": str(lease.get("cores", "")),
        "Host memory": format_bytes(lease["host_bytes"]) if lease.get("host_bytes") else "",
        "Data tier": tier or "",
        "Stall share": "" if not isinstance(stall, int | float) else f"{stall:.1%}",
        "Utilisation": "" if share is None else f"{share:.0%}",
        "Power": "" if sample.get("watts") is None else f"{sample['watts']:.0f} W",
        "Attempt": str(job.attempt) if job.attempt > 1 else "",
    }


def _set_text(element: Tag, text: str) -> None:
    if element.text != text:
        element.set_text(text)
