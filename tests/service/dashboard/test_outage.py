"""Lists that are open while the database is away: they say so, and recover. No browser is needed."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from brimful.service.dashboard.pages import compare, data, devices, jobs
from brimful.service.dashboard.parts.outage import Outage
from brimful.service.errors import Unavailable
from brimful.service.jobs.job import Job, JobPage, JobRequest
from brimful.service.jobs.state import JobState

from ...helpers.asynchronous import run_apart

AWAY = Unavailable("the database is away. Try again later")
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


def outage() -> tuple[Outage, list[str]]:
    """One whose line is in no page, and what it said so far; nothing stands for what is hidden."""
    made, said = object.__new__(Outage), []
    line: Any = SimpleNamespace(text="", visible=False, set_text=lambda text: setattr(line, "text", text))

    def set_visibility(visible: bool) -> None:
        line.visible = visible
        said.append(line.text if visible else "")

    line.set_visibility = set_visibility
    made._line = line
    return made, said


def data_view(service: Any) -> Any:
    view = data._DataView(SimpleNamespace(service=service))  # pyright: ignore[reportArgumentType]
    view.datasets = view.uploads = view.jobs = view._renew = Mock()
    return view


@pytest.mark.parametrize("make", [jobs_view, devices_view, comparison, data_view])
def test_a_page_says_that_it_is_out_of_date_until_it_is_not(make: Any):
    service = SimpleNamespace(devices=list, metrics=lambda *_: {}, datasets=list, uploads=list)
    service.jobs = Mock(side_effect=[AWAY, AWAY, PAGE])
    service.job = Mock(side_effect=[AWAY, AWAY, RUN])
    view = make(service)
    view.outage, said = outage()
    for _ in range(3):
        run_apart(view._refresh())
    assert said == ["This page is out of date, and tries again by itself: the database is away.", ""]


def test_a_page_says_that_there_is_no_answer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("brimful.service.dashboard.parts.outage._LONG", 0.0)
    made, said = outage()
    assert run_apart(made.during(asyncio.sleep(0.01, "read"))) == "read"
    assert said == ["This page is out of date, and tries again by itself: the database does not answer.", ""]
