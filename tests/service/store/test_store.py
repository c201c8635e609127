"""The tables: brought up to date, and what a job's process wrote taken in once."""

import contextlib
import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from brimful.core.base.errors import ConfigError
from brimful.service.child.job_dir import EVENTS, METRICS
from brimful.service.jobs.job import Job, JobRequest
from brimful.service.jobs.lease import Demand, Lease
from brimful.service.jobs.state import JobState
from brimful.service.store import Store
from brimful.service.store.ingest import ingest, ingest_all
from brimful.service.store.migrate import FOLDER, migrate, migrations


def tables(store: Store) -> set[str]:
    with store.pool.session() as connection:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'brimful_service'"
        return {row[0] for row in connection.execute(query)}


def test_migrations_are_applied_upward_from_every_version(store: Store, tmp_path: Path):
    whole = tables(store)
    assert {"job", "event", "metric", "token", "upload", "setting"} <= whole
    for before in range(len(migrations()) + 1):
        with store.pool.session() as connection:
            connection.execute("DROP SCHEMA brimful_service CASCADE")
            earlier = tmp_path / str(before)
            earlier.mkdir()
            for one in sorted(FOLDER.glob("*.sql"))[:before]:
                (earlier / one.name).write_text(one.read_text())
            assert migrate(connection, earlier) == list(range(1, before + 1))
            if before:  # rows that an earlier version wrote stay
                connection.execute(
                    "INSERT INTO brimful_service.job (id, name, workload, command, config, priority, state, created, "
                    "queued) VALUES ('1', 'a', 'steps', 'train', '{}', 0, 'finished', 0, 0)"
                )
            assert migrate(connection) == list(range(before + 1, len(migrations()) + 1))
            assert migrate(connection) == []
        assert tables(store) == whole
        if before:
            assert store.jobs.get("1").request.name == "a"


def test_a_database_of_a_later_version_and_gaps_are_refused(store: Store, tmp_path: Path):
    with store.pool.session() as connection:
        connection.execute("INSERT INTO migration (number, name) VALUES (99, 'later')")
        with pytest.raises(ConfigError, match="a later version of brimful: it is at migration 99"):
            migrate(connection)
    (tmp_path / "0002_x.sql").write_text("")
    with pytest.raises(ConfigError, match="not numbered from 1"):
        migrations(tmp_path)


def test_a_migration_that_fails_leaves_nothing(store: Store, tmp_path: Path):
    for one in FOLDER.glob("*.sql"):
        (tmp_path / one.name).write_text(one.read_text())
    number = len(migrations()) + 1
    (tmp_path / f"{number:04}_wrong.sql").write_text("CREATE TABLE half (x int); SELECT nonsense;")
    with pytest.raises(Exception, match="nonsense"), store.pool.session() as connection:
        migrate(connection, tmp_path)
    assert "half" not in tables(store)


@pytest.fixture
def job(store: Store) -> Job:
    return store.jobs.add(JobRequest(name="a", workload="steps"), None)


def line(event: str, **values: object) -> str:
    return json.dumps({"event": event, "time": 1.0, **values}) + "\n"


def test_lines_are_taken_in_once_and_torn_ones_later(store: Store, job: Job, tmp_path: Path):
    events, metrics = tmp_path / EVENTS, tmp_path / METRICS
    events.write_text(line("started", work="w", items=10, done=0, seconds=0.0) + "nonsense\n" + '{"event": "batch')
    metrics.write_text('{"name": "loss", "step": 1, "time": 1.0, "value": NaN}\n{"name": "lo')
    for _ in range(3):
        ingest_all(store.pool, job.id, tmp_path)
    stored = store.history.events(job.id, 0, 100)
    assert [event.kind for event in stored] == ["state", "started"]
    assert math.isnan(store.history.metrics(job.id, None, 10, None, None)["loss"][0][2])
    text = events.read_text()
    events.write_text(text[: text.rindex("\n") + 1])  # the next process cuts a torn line off
    with events.open("a") as file:
        file.write(line("batch_done", done=7, flagged=1) + line("warned", message="a\x00b") + line("x", v=math.inf))
    with metrics.open("w") as file:
        rows = [("loss", 1), ("loss", 1), ("loss", 2)]
        file.write('{"name": "loss", "step": 1, "time": 1.0, "value": NaN}\n')
        file.writelines(json.dumps({"name": n, "step": s, "time": 1.0, "value": 0.5}) + "\n" for n, s in rows)
    ingest_all(store.pool, job.id, tmp_path)
    stored = store.history.events(job.id, 2, 100)
    assert [(event.id, event.kind) for event in stored] == [(3, "batch_done"), (4, "warned"), (5, "x")]
    assert stored[2].data == {"v": None} and store.history.latest(job.id) == 5
    progress = store.jobs.get(job.id).progress
    assert (progress.done, progress.items, progress.bad) == (7, 10, 1)
    assert [step for step, _, _ in store.history.metrics(job.id, None, 10, None, None)["loss"]] == [1, 2]


def test_time_is_counted_from_lease_to_lease_and_work_without_what_was_compiled(
    store: Store, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    clock = [1000.0]
    monkeypatch.setattr("brimful.service.store.jobs.time", SimpleNamespace(time=lambda: clock[0]))
    store.jobs.set_demand(job.id, Demand(device="cpu", cores=1))
    store.jobs.start(Lease(job=job.id, devices=("cpu",), demand=Demand(device="cpu", cores=1), since=1000.0))
    text = '{"event": "started", "time": 1010, "done": 0, "items": 10, "seconds": 0}\n'
    text += '{"event": "compiled", "time": 1010, "loops": 0, "seconds": 0}\n'
    text += '{"event": "compiled", "time": 1018, "loops": 3, "seconds": 8}\n'
    (tmp_path / EVENTS).write_text(text)
    ingest_all(store.pool, job.id, tmp_path)
    progress = store.jobs.get(job.id).progress
    assert (progress.began, progress.compiling, progress.wall) == (1018.0, 8.0, 0.0)
    with (tmp_path / EVENTS).open("a") as file:
        file.write('{"event": "finished", "time": 1022, "state": "finished", "done": 10, "bad": 0, "seconds": 4}\n')
    ingest_all(store.pool, job.id, tmp_path)
    clock[0] = 1022.0
    store.jobs.move(job.id, JobState.FINISHED, {JobState.RUNNING}, ended=1022.0)
    progress = store.jobs.get(job.id).progress
    assert (progress.wall, progress.seconds, progress.compiling, progress.began) == (22.0, 4.0, 8.0, None)


def test_the_newest_events_are_read_without_those_that_come_by_the_thousand(store: Store, job: Job, tmp_path: Path):
    parts = {"data": 5, "gradients": 7}
    lines = [line("planned", plan={"number": 1}), line("sampled", used=1), line("memory_measured", parts=parts)]
    lines += [line("batch_done", done=number) for number in range(50)] + [
        line("sampled", used=2),
        line("planned", plan={}),
    ]
    (tmp_path / EVENTS).write_text("".join(lines))
    ingest_all(store.pool, job.id, tmp_path)
    recent = store.history.recent(job.id, 3)
    assert [event.kind for event in recent] == ["planned", "memory_measured", "sampled", "planned"]
    assert recent[2].data == {"used": 2}
    last = store.history.last_plan(job.id)
    assert last is not None and last.data == {"plan": {}}
    assert store.jobs.get(job.id).progress.parts == parts


def test_looks_at_the_device_are_given_evenly_and_the_last_is_known(store: Store, job: Job, tmp_path: Path):
    (tmp_path / EVENTS).write_text("".join(line("sampled", used=number, process=2 * number) for number in range(1000)))
    ingest_all(store.pool, job.id, tmp_path)
    used = [event.data["used"] for event in store.history.samples(job.id, 10)]
    assert used == list(range(99, 1000, 100))
    progress = store.jobs.get(job.id).progress
    assert (progress.used, progress.process) == (999, 1998)


def test_metrics_are_down_sampled_and_extremes_stay(store: Store, job: Job, tmp_path: Path):
    values = [math.sin(step / 50) for step in range(5000)]
    values[1234], values[4321] = 9.0, -9.0
    with (tmp_path / METRICS).open("w") as file:
        for step, value in enumerate(values):
            file.write(json.dumps({"name": "loss", "step": step, "time": 0.0, "value": value}) + "\n")
    while ingest(store.pool, job.id, tmp_path):
        pass
    points = store.history.metrics(job.id, ["loss"], 100, None, None)["loss"]
    assert 50 < len(points) <= 100 and [step for step, _, _ in points] == sorted(step for step, _, _ in points)
    assert {0, 1234, 4321, 4999} <= {step for step, _, _ in points}
    window = store.history.metrics(job.id, None, 100, 10, 30)["loss"]
    assert [step for step, _, _ in window] == list(range(10, 31))
    assert store.history.metrics(job.id, ["none"], 100, None, None) == {}


def test_connections_are_opened_before_they_are_needed(store: Store, monkeypatch: pytest.MonkeyPatch):
    store.pool.fill(4)
    monkeypatch.setattr(store.pool, "open", lambda: pytest.fail("another connection is opened"))
    with contextlib.ExitStack() as sessions:
        for _ in range(4):
            assert sessions.enter_context(store.pool.session()).execute("SELECT 1").fetchone() == (1,)
