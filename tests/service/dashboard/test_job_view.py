"""What the page of a job shows of a job that changes while it is read; no browser is needed."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from brimful.service.dashboard.pages.job import _JobView, no_metrics
from brimful.service.errors import Unavailable
from brimful.service.jobs.job import Job, JobRequest, StoredEvent
from brimful.service.jobs.state import JobState

from ...helpers.asynchronous import run_apart

ENDED = StoredEvent(id=7, time=1.0, kind="state", data={"state": "cancelled"})


def job(state: JobState) -> Job:
    return Job(id="1", request=JobRequest(name="a", workload="gp", command="fit", config={}), state=state)


def view_of(service: Any) -> _JobView:
    dashboard = SimpleNamespace(service=service)
    view = _JobView(dashboard, job(JobState.RUNNING), 6)  # pyright: ignore[reportArgumentType]
    view.head = view.curves = view.events = view.log = Mock()
    view._zoom = view._show_results = view._show_uses = Mock(side_effect=lambda *_: nothing())
    return view


async def nothing() -> None:
    return None


def service_whose_job_ends(**others: Any) -> Any:
    """The job ends at the moment at which its events are read."""
    state = [JobState.RUNNING]

    def events(_: str, after: int, limit: int) -> list[StoredEvent]:
        state[0] = JobState.CANCELLED
        return [ENDED] if after < ENDED.id else []

    reads = {"latest_event": lambda _: 7, "events": events, "metrics": lambda *_: {}, "log": lambda *_: (b"", 0)}
    reads["samples"] = lambda *_: []
    return SimpleNamespace(**{**reads, "job": lambda _: job(state[0]), **others})


def test_who_has_seen_the_last_event_sees_the_end():
    view = view_of(service_whose_job_ends())
    run_apart(view._update())
    assert (view.event, view.job.state, view.ended) == (7, JobState.CANCELLED, True)


def test_events_that_could_not_be_shown_are_read_again():
    away = Mock(side_effect=[Unavailable("the database is away"), {}])
    view = view_of(service_whose_job_ends(metrics=lambda *_: away()))
    with pytest.raises(Unavailable):
        run_apart(view._update())
    assert view.event == 6
    run_apart(view._update())
    assert (view.event, view.ended) == (7, True)


def test_curves_are_promised_only_of_what_trains():
    training, mapping = {"tier": "device"}, {"tier": ""}
    running, ended = job(JobState.RUNNING), job(JobState.FAILED)
    assert [no_metrics(running, plan) for plan in (None, mapping)] == ["", ""]
    assert no_metrics(running, training).startswith("No metrics yet.")
    assert no_metrics(ended, training) == "It has reported no metrics."
