"""The top of a job's page: what it is, what can be done with it, and how it goes."""

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from nicegui import ui

from .....core.base.formatting import format_bytes, format_seconds
from ....jobs.job import Job, StoredEvent
from ....jobs.state import REQUESTS, JobState
from ....service import Service
from ...elements import Tag, button, careful_button, link, set_attributes, set_text
from ...notices import notify
from ...values import (
    counted,
    fraction,
    memory_text,
    message_text,
    progress_text,
    rate,
    rate_text,
    seconds_left,
    seconds_taken,
)
from ...viewer import change, may_change
from ..facts import Facts
from .job_times import JobTimes

_DONE = {"pause": "Pausing", "resume": "Queued again", "retry": "Queued again", "cancel": "Cancelling"}


class JobHead:
    """Title, actions and facts, each brought up to date when it changes.

    Args:
        changed: called after an action, with the job.
    """

    def __init__(self, service: Service, job: Job, changed: Callable[[Job], Any]) -> None:
        self._service, self._job, self._changed = service, job, changed
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
        with Tag("p", classes="muted details"):
            self._times = JobTimes(job)
            self._details = Tag("span")
            Tag("code", job.id)
        self._message = Tag("p", "", "message", role="status")
        self._bar = Tag("progress", max="1", aria_label="Progress of this job")
        self._shown = ""
        self._facts = Facts()
        self.show(job)

    def show(self, job: Job, use: Mapping[str, str] | None = None, stall: float | None = None) -> None:
        """Shows the job as it is now.

        Args:
            use: facts of how busy its device is, or was.
            stall: the share of its time in which there was no batch, so far.
        """
        self._job = job
        for name, made in self._buttons.items():
            made.set_visibility(job.state in REQUESTS[name])
        if self._buttons:
            ended = job.state.ended or job.state is JobState.PAUSED
            self._delete.set_visibility(ended)
        self._times.show(job)
        set_text(self._details, details(job))
        set_text(self._message, message_text(job))
        self._message.set_visibility(bool(self._message.text))
        self._message.classes(replace="message failed" if job.state is JobState.FAILED else "message")
        done = fraction(job)
        self._bar.set_visibility(done is not None and job.state is not JobState.FINISHED)
        if self._shown != job.state.value:
            self._bar.classes(remove=self._shown, add=job.state.value)
            self._shown = job.state.value
        if done is not None and self._bar._props.get("value") != round(done, 4):
            set_attributes(self._bar, value=round(done, 4) or "0")
        self._facts.show(_facts(job, use, stall))

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


def details(job: Job) -> str:
    """What it asked for, and what it was given of the machine, in a line."""
    lease = job.lease or {}
    parts = [f"priority {job.request.priority}"]
    if lease.get("device"):
        parts.append(f"on {lease['device']}")
    if lease.get("cores"):
        parts.append(counted(lease["cores"], "core"))
    if lease.get("host_bytes"):
        parts.append(f"{format_bytes(lease['host_bytes'])} of host memory")
    return ", ".join(parts)


def use_facts(samples: Sequence[StoredEvent], ended: bool) -> dict[str, str]:
    """How busy its device is, as last sampled; of a job that has ended, on average."""
    facts = {}
    for name, key, form in (("utilisation", "utilisation", "{:.0%}"), ("power", "watts", "{:.0f} W")):
        known = [value for one in samples if isinstance(value := one.data.get(key), int | float)]
        facts[name.capitalize()] = form.format(known[-1]) if known and not ended else ""
        facts[f"Mean {name}"] = form.format(fmean(known)) if len(known) > 1 and ended else ""
    return facts


def _facts(job: Job, use: Mapping[str, str] | None = None, stall: float | None = None) -> dict[str, str]:
    now = time.time()
    left, took, compiling = seconds_left(job, now), seconds_taken(job, now), job.progress.compiling
    stall = (job.summary or {}).get("stall_share", stall)
    return {
        "State": job.state.value,
        "Progress": progress_text(job),
        "Left": "" if left is None else format_seconds(max(1.0, left)).replace(".0", ""),
        "Rate": rate_text(rate(job, now)),
        "Took": format_seconds(took) if took >= 0.05 else "",
        "Compiling": format_seconds(compiling) if compiling >= 0.05 else "",
        "Memory": memory_text(job),
        "Stall share": "" if not isinstance(stall, int | float) else f"{stall:.1%}",
        **(use_facts((), ended=True) | dict(use or {})),
        "Attempt": str(job.attempt) if job.attempt > 1 else "",
    }
