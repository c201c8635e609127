"""Both clients against a real server: every method, every refusal, and connections that break."""

import asyncio
import inspect
import io
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

import brimful
from brimful import AsyncClient, Client
from brimful.core.runs.events import BatchDone, EpochDone, Event, Finished, Metric, Started
from brimful.service.api.app import create_app
from brimful.service.client.event_stream import PAUSES, EventStream
from brimful.service.errors import Conflict, Forbidden, Invalid, NotFound, ServiceError, Unavailable
from brimful.service.jobs.job import StoredEvent
from brimful.service.jobs.state import JobState
from brimful.service.security.policy import SecurityPolicy

from ...helpers.fake_service import FakeService
from ...helpers.paths import ROOT
from ...helpers.served import Served, serving
from ...helpers.stopping import wait_for


class Blocking:
    """The async client, each call run to its end, so that one test is of both."""

    def __init__(self, url: str, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = self._runner.run(self._open(url, options))

    async def _open(self, url: str, options: dict[str, Any]) -> AsyncClient:
        return AsyncClient(url, **options)

    def __enter__(self) -> "Blocking":
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.run(self._client.close())
        self._runner.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            result = getattr(self._client, name)(*arguments, **options)
            if inspect.isasyncgen(result):
                return self._listed(result)
            return self._runner.run(result)

        return call

    def _listed(self, generator: Any) -> Iterator[Any]:
        while True:
            try:
                yield self._runner.run(anext(generator))
            except StopAsyncIteration:
                return


@pytest.fixture(params=[Client, Blocking])
def connect(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def client(server: Served, connect: Any) -> Iterator[Any]:
    with connect(server.url) as opened:
        yield opened


def emit(service: FakeService, id: str, *events: Event) -> None:
    for event in events:
        values = event.to_dict()
        service.emit(id, values.pop("event"), **values)


def test_both_clients_have_the_same_methods_and_arguments():
    def methods(kind: type) -> dict[str, list[str]]:
        public = {name: member for name, member in vars(kind).items() if name[0] != "_" and callable(member)}
        return {name: [str(part) for part in inspect.signature(f).parameters.values()] for name, f in public.items()}

    assert methods(Client) == methods(AsyncClient)
    assert len(methods(Client)) > 25


def test_a_job_is_submitted_shown_listed_and_changed(client: Any, service: FakeService):
    job = client.submit(config={"dataset_ids": "night", "epochs": 3}, job_name="first")
    assert (job.request.name, job.request.config["epochs"], job.state) == ("first", 3, JobState.QUEUED)
    assert client.job(job.id) == job
    assert client.submit("nets", "train").request.name == "nets train"
    page = client.jobs(state=["queued"], limit=1, sort="name")
    assert (page.total, len(page.jobs), service.filter.sort) == (2, 1, "name")
    assert [entry.id for entry in client.all_jobs(limit=1)] == list(service.stored)
    assert client.pause(job.id).state is JobState.PAUSED
    assert client.resume(job.id).state is JobState.QUEUED
    assert client.cancel(job.id).state is JobState.CANCELLED
    assert client.retry(job.id).state is JobState.QUEUED
    client.delete(job.id)
    assert job.id not in service.stored


def test_what_else_a_server_has(client: Any, service: FakeService, tmp_path: Path):
    job = service.add()
    service.series[job.id] = {"loss": [(1, 2.0, 0.5), (2, 3.0, float("nan"))]}
    assert repr(client.metrics(job.id, ["loss"], points=7)) == "{'loss': [(1, 2.0, 0.5), (2, 3.0, nan)]}"
    assert service.asked == (["loss"], 7, None, None)
    assert client.log(job.id, after=2) == ("grüße\n".encode()[2:], 8)
    assert [artifact.name for artifact in client.artifacts(job.id)] == ["a.txt"]
    assert client.report(job.id)["pictures"] == []
    service.emit(job.id, "planned", plan={"strategy": "whole"})
    assert client.job_plan(job.id) == {"strategy": "whole"}
    assert client.plan("nets", "train", {"count": 3})["text"] == "whole"
    assert [workload["workload"] for workload in client.workloads()] == ["locate", "gp", "nets"]
    assert client.devices()[0]["device"] == "cpu"
    client.set_budget("8GB")
    assert service.budget == "8GB"
    assert client.ready()["ok"]
    points = tmp_path / "points.csv"
    points.write_text("x\n1\n")
    sent = client.upload(points)
    assert (sent.name, sent.bytes) == ("points.csv", 4)
    assert client.uploads() == [sent]
    assert client.import_dataset("new", f"upload:{sent.id}", ["x"]).request.name == "import new"
    client.delete_upload(sent.id)
    assert client.datasets() == [{"name": "night", "rows": 3}]
    assert client.dataset("night")["rows"] == 3
    assert client.verify_dataset("night").request.name == "verify night"
    client.delete_dataset("night")
    assert service.sets == {}


def test_files_are_written_whole_where_they_should(client: Any, service: FakeService, tmp_path: Path):
    job = service.add()
    folder = tmp_path / "here"
    folder.mkdir()
    assert client.download(job.id, "a.txt", folder) == folder / "a.txt"
    assert client.download(job.id, "a.txt", folder / "below" / "b.txt").read_text() == "a"
    with pytest.raises(NotFound):
        client.download(job.id, "nothing.txt", folder)
    with pytest.raises(NotFound, match="leads out of a folder"):
        client.download(job.id, "../a.txt", folder)
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*")) == ["a.txt", "below/b.txt"]


def test_refusals_are_the_errors_of_the_service(client: Any, service: FakeService, tmp_path: Path):
    job = service.add(state=JobState.FINISHED)
    with pytest.raises(NotFound, match="there is no job"):
        client.job("0" * 36)
    with pytest.raises(Conflict, match="ended already"):
        client.cancel(job.id)
    with pytest.raises(Invalid) as refused:
        client.submit("nets", "train", job_name="\n")
    assert [problem.path for problem in refused.value.problems] == ["job_name"]
    with pytest.raises(ServiceError, match="such files are not taken") as refused:
        (tmp_path / "x.exe").write_bytes(b"MZ")
        client.upload(tmp_path / "x.exe")
    assert isinstance(refused.value, brimful.BrimfulError)
    with pytest.raises(NotFound):
        list(client.events("0" * 36))


def test_a_token_is_sent(service: FakeService, connect: Any, monkeypatch: pytest.MonkeyPatch):
    token = service.create_token(["read"])
    app = create_app(service, SecurityPolicy.for_host("127.0.0.1", require_token=True))
    with serving(app) as guarded:
        with connect(guarded.url, token=token) as client:
            assert client.jobs().total == 0
            with pytest.raises(Forbidden, match="write"):
                client.submit("nets", "train")
        monkeypatch.setenv("BRIMFUL_TOKEN", token + "x")
        with connect(guarded.url) as client, pytest.raises(Forbidden):
            client.jobs()


def test_events_come_each_once_whatever_the_connection_does(server: Served, service: FakeService, connect: Any):
    """The server goes away again and again while events are emitted and read."""
    job = service.add(state=JobState.RUNNING)

    def happen() -> None:
        for number in range(60):
            service.emit(job.id, "metric", number=number)
            if number % 20 == 10:
                wait_for(lambda so_far=number: len(received) > so_far - 9)
                server.stop()
                server.start()
        service.move(job.id, JobState.FINISHED)

    received: list[StoredEvent] = []
    thread = threading.Thread(target=happen)
    thread.start()
    with connect(server.url) as client:
        for event in client.events(job.id):
            received.append(event)
    thread.join()
    assert [event.id for event in received] == list(range(1, 62))
    assert [event.data.get("number") for event in received[:-1]] == list(range(60))


def test_events_from_a_number_on_and_without_waiting(client: Any, service: FakeService):
    job = service.add(state=JobState.RUNNING)
    for number in range(5):
        service.emit(job.id, number=number)
    assert [event.id for event in client.events(job.id, after=3, follow=False)] == [4, 5]


def test_a_job_that_is_deleted_ends_its_events(client: Any, service: FakeService):
    job = service.add(state=JobState.RUNNING)
    service.emit(job.id)
    events = client.events(job.id)
    assert next(events).id == 1
    service.delete(job.id)
    with pytest.raises(NotFound, match="was deleted"):
        next(events)


def test_watching_shows_what_a_run_shows(client: Any, service: FakeService):
    job = service.add(state=JobState.RUNNING)
    started = Started(time=1.0, work="gp fit", items=10, done=0, budget=100)
    batches = [BatchDone(time=float(n), items=1, bad=0, done=n, seconds=1.0, peak=10, budget=100) for n in range(1, 6)]
    emit(service, job.id, started, *batches, Metric(time=6.0, metric="loss", value=1.0, step=1))
    seen: list[Event] = []
    finished = Finished(time=9.0, state="finished", done=10, bad=0, seconds=8.0)

    def sink(event: Event) -> None:
        seen.append(event)
        if event == batches[-1]:  # it has caught up with what was
            emit(service, job.id, replace(batches[-1], done=9), finished)
            service.move(job.id, JobState.FINISHED)

    assert client.watch(job.id, sink).state is JobState.FINISHED
    # Of the past, the last step of progress; from then on, all that a display shows.
    shown = [event for event in seen if not isinstance(event, Metric)]
    assert shown == [started, batches[-1], replace(batches[-1], done=9), finished]


def test_the_example_of_the_guide_runs(server: Served, service: FakeService, capsys: pytest.CaptureFixture[str]):
    text = (ROOT / "docs" / "serve.md").read_text().split("```python\n")[1].split("```")[0]

    def finish() -> None:
        wait_for(lambda: bool(service.stored))
        service.move(next(iter(service.stored)), JobState.FINISHED)

    thread = threading.Thread(target=finish)
    thread.start()
    assert "http://127.0.0.1:8000" in text
    exec(text.replace("http://127.0.0.1:8000", server.url), {})
    thread.join()
    assert "finished" in capsys.readouterr().out.lower()


def test_watching_ends_where_a_job_is_paused_but_not_for_a_pause_of_the_past(client: Any, service: FakeService):
    job = service.add(state=JobState.RUNNING)
    service.move(job.id, JobState.PAUSED)
    assert client.watch(job.id, progress=False).state is JobState.PAUSED
    service.move(job.id, JobState.QUEUED)
    service.move(job.id, JobState.RUNNING)

    def sink(event: Event) -> None:
        service.move(job.id, JobState.FAILED)

    emit(service, job.id, EpochDone(epoch=1, epochs=2, step=1, seconds=1.0, values={"loss": 1.0}))
    assert client.watch(job.id, sink).state is JobState.FAILED


def test_a_watched_job_looks_like_a_run_in_a_pipe(
    server: Served, service: FakeService, monkeypatch: pytest.MonkeyPatch
):
    job = service.add(state=JobState.RUNNING)
    emit(
        service,
        job.id,
        Started(time=100.0, work="gp fit", items=10, done=0, budget=0),
        BatchDone(time=110.0, items=5, bad=0, done=5, seconds=1.0, peak=10, budget=0),
        Finished(time=120.0, state="finished", done=10, bad=0, seconds=20.0),
    )
    service.move(job.id, JobState.FINISHED)
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with Client(server.url) as client:
        client.watch(job.id)
    assert stream.getvalue().splitlines() == [
        "gp fit: 10 items",
        "gp fit: finished, 10 items in 20.0 s",
        "finished",
    ]


def test_old_jobs_are_pruned(client: Any, service: FakeService):
    jobs = {state: service.add(state=state) for state in JobState}
    for state, job in jobs.items():
        if state.ended:
            service.stored[job.id] = replace(job, ended=1000.0)
    recent = service.add(state=JobState.FINISHED)
    service.stored[recent.id] = replace(recent, ended=9e9)
    ended = {job.id for state, job in jobs.items() if state.ended}
    assert {job.id for job in client.prune(30, dry_run=True)} == ended
    assert {job.state for job in client.prune(30, ["failed"])} == {JobState.FAILED}
    assert len(client.prune(30)) == 2
    assert set(service.stored) == {job.id for job in jobs.values()} - ended | {recent.id}
    with pytest.raises(brimful.ConfigError, match="days is -1"):
        client.prune(-1)


def test_a_server_that_is_away_for_a_moment_is_asked_again(server: Served, service: FakeService, connect: Any):
    with connect(server.url) as client:
        server.stop()
        timer = threading.Timer(0.05, server.start)
        timer.start()
        assert client.jobs().total == 0
        timer.join()


def test_a_job_is_not_submitted_twice(connect: Any, monkeypatch: pytest.MonkeyPatch):
    """A request whose answer is lost may have been carried out."""
    sent = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.method)
        raise httpx.ReadError("lost", request=request)

    with connect("http://127.0.0.1:1") as client:
        inner = getattr(client, "_client", client)
        inner._http._transport = httpx.MockTransport(answer)
        with pytest.raises(Unavailable, match="does not answer"):
            client.submit("nets", "train")
        assert sent == ["POST"]


def test_a_server_that_stays_away_is_unavailable(connect: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("brimful.service.client.connection.RETRIES", (0.0,))
    with connect("http://127.0.0.1:1") as client:
        with pytest.raises(Unavailable, match=r"http://127.0.0.1:1 does not answer: .*Check that the server runs"):
            client.jobs()
        with pytest.raises(Unavailable, match="goes on by itself"):
            list(client.events("1", patience=-1.0))


def test_waiting_gets_longer_and_starts_over_with_every_event():
    now = [0.0]
    stream = EventStream("1", patience=100.0, clock=lambda: now[0])
    assert [stream.lost(OSError("x")) for _ in range(6)] == [*PAUSES, PAUSES[-1]]
    stream.request(follow=True)
    [event] = stream.feed(b'data: {"id": 1, "time": "1970-01-01T00:00:00Z", "kind": "metric", "data": {}}\n\n')
    assert event.id == stream.after == 1
    assert stream.lost(OSError("x")) == PAUSES[0]
    now[0] = 101.0
    with pytest.raises(Unavailable, match="not answered for 101 s"):
        stream.lost(OSError("x"))
    with pytest.raises(Forbidden):
        stream.lost(Forbidden("no"))


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host", "http://", "http://[::1"])
def test_what_is_no_url_is_refused(url: str):
    with pytest.raises(brimful.ConfigError, match="give http://host:port"):
        Client(url)


def test_which_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from brimful.service import address

    monkeypatch.setenv("BRIMFUL_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("BRIMFUL_URL", raising=False)
    with pytest.raises(Unavailable, match="no server runs on this machine"):
        Client()
    address.publish(tmp_path, "http://127.0.0.1:8001")
    with Client() as client:
        assert client.url == "http://127.0.0.1:8001"
    monkeypatch.setenv("BRIMFUL_URL", "http://127.0.0.1:8002/")
    with Client() as client:
        assert repr(client) == "Client('http://127.0.0.1:8002')"
