"""Lists that are open while the database is away: they say so, and recover. No browser is needed."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from brimful.service.dashboard.pages import compare, devices, jobs
from brimful.service.errors import Unavailable
from brimful.service.jobs.job import Job, JobPage, JobRequest
from brimful.service.jobs.state import JobState

from ...helpers.asynchronous import run_apart

AWAY = Unavailable("the database is away")
PAGE = JobPage(jobs=(), next=None, total=0)
RUN = Job(id="1", request=JobRequest(name="a", config={}), state=JobState.RUNNING)


def jobs_view(service: Any) -> Any:
    view = jobs._JobsView(SimpleNamespace(service=service), "", "", "", "-created")  # pyright: ignore[reportArgumentType]
    view.table = view._show = Mock()
    return view


def devices_view(service: Any) -> Any:
    view = devices._DevicesView(SimpleNamespace(service=service), devices._Samples())  # pyright: ignore[reportArgumentType]
    view.parts, view.queue, view.more = {}, Mock(), Mock(text="")
    return view


def comparison(service: Any) -> Any:
    view = compare._Comparison(SimpleNamespace(service=service))  # pyright: ignore[reportArgumentType]
    view.runs, view.mixed, view.steps = [RUN], False, {RUN.id: 0}
    view._show_results = Mock()
    return view


@pytest.mark.parametrize("make", [jobs_view, devices_view, comparison])
def test_a_page_says_that_it_is_out_of_date_until_it_is_not(make: Any):
    service = SimpleNamespace(devices=list, metrics=lambda *_: {})
    service.jobs = Mock(side_effect=[AWAY, PAGE])
    service.job = Mock(side_effect=[AWAY, RUN])
    view = make(service)
    view.outage = Mock()
    run_apart(view._refresh())
    view.outage.show.assert_called_once_with(AWAY)
    view.outage.over.assert_not_called()
    run_apart(view._refresh())
    view.outage.over.assert_called_once_with()
