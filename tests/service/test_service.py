"""Jobs from their request to their end, by real processes on a real database."""

import contextlib
import io
import os
import signal

import numpy as np
import psutil
import pytest

from brimful.service.child.job_dir import METRICS
from brimful.service.errors import Conflict, Invalid, NotFound
from brimful.service.jobs.job import JobFilter
from brimful.service.jobs.state import JobState
from brimful.service.service import Series

from ..helpers.stopping import wait_for
from .conftest import Make, Running


def child_of(running: Running, id: str) -> int:
    """The process of a job: it has the lock of its directory."""
    text = (running.service.files.job(id) / "lock").read_text()
    return int(text.split('"pid": ')[1].split(",")[0])


def without_times(series: Series) -> dict[str, list[tuple[int, float]]]:
    return {name: [(step, value) for step, _, value in rows] for name, rows in series.items()}


def test_a_job_runs_and_its_result_metrics_events_and_files_are_there(running: Running):
    job = running.wait(running.submit(config={"epochs": 3}))
    assert job.state is JobState.FINISHED and job.summary and job.exit_code == 0, job.message
    assert job.lease is None and job.progress.epoch == 3 and job.ended and job.started
    assert running.states(job) == ["queued", "running", "finished"]
    service = running.service
    events = service.events(job.id)
    assert [event.id for event in events] == list(range(1, len(events) + 1)) and service.latest_event(job.id) == len(
        events
    )
    assert [event.data["epoch"] for event in events if event.kind == "epoch_done"] == [1, 2, 3]
    losses = service.metrics(job.id, ["train_loss"])["train_loss"]
    assert [step for step, _, _ in losses] == [4, 8, 12] and losses[0][2] > losses[-1][2]
    names = {artifact.name for artifact in service.artifacts(job.id)}
    assert {"manifest.json", "history.parquet"} <= names
    assert service.artifact(job.id, "history.parquet").is_file()
    assert service.report(job.id)["tables"]["history"][0]["epoch"] == 1
    text, end = service.log(job.id)
    assert b"steps train" in text and service.log(job.id, end) == (b"", end)


def test_two_that_fit_run_together_and_one_that_does_not_waits_and_then_runs(running: Running):
    first, second = (running.submit("wait", "3GB", config={"seconds": 60}) for _ in range(2))
    for job in (first, second):
        running.wait(job, "running")
        running.wait_for_event(job, "started")
    third = running.submit("wait", "3GB", config={"seconds": 0})
    wait_for(lambda: "3.00 GB" in running.service.job(third.id).message)
    assert running.service.job(third.id).state is JobState.QUEUED
    cpu = running.service.devices()[0]
    assert cpu["leased_bytes"] == 2 * (3 * 10**9 + 600_000_000) <= cpu["budget_bytes"] and cpu["leased_cores"] == 2
    running.service.cancel(first.id)
    assert running.wait(third).state is JobState.FINISHED
    assert running.service.job(second.id).state is JobState.RUNNING


def test_a_job_that_is_paused_and_resumed_ends_as_if_it_had_not_been(running: Running):
    whole = running.submit(config={"epochs": 4, "pause": 0.03})
    parted = running.submit(config={"epochs": 4, "pause": 0.03})
    running.wait_for_event(parted, "epoch_done")
    running.service.pause(parted.id)
    paused = running.wait(parted, "paused")
    assert paused.lease is None and paused.message == "paused" and paused.progress.epoch in (1, 2, 3)
    running.service.resume(parted.id)
    ends = [running.wait(job) for job in (whole, parted)]
    assert [end.state for end in ends] == [JobState.FINISHED] * 2
    assert ends[0].summary and ends[1].summary and ends[0].summary["weights"] == ends[1].summary["weights"]
    assert running.states(parted) == [
        *("queued", "running", "pausing", "paused", "queued", "running", "finished"),
    ]
    points = [running.service.metrics(job.id, ["train_loss", "lr"]) for job in (whole, parted)]
    assert without_times(points[0]) == without_times(points[1])


def test_cancel_ends_the_process_also_of_a_job_that_does_not_listen(running: Running):
    jobs = [running.submit("wait", config={"seconds": 600, "deaf": deaf}) for deaf in (False, True)]
    for job in jobs:
        running.wait_for_event(job, "started")
    processes = [psutil.Process(child_of(running, job.id)) for job in jobs]
    for job in jobs:
        running.service.cancel(job.id)
        running.service.cancel(job.id)  # asking twice changes nothing
    for job, process in zip(jobs, processes, strict=True):
        assert running.wait(job).state is JobState.CANCELLED
        wait_for(lambda process=process: not process.is_running())
    waiting = running.submit("wait", "100GB")
    assert running.service.cancel(waiting.id).state is JobState.CANCELLED
    with pytest.raises(Conflict, match="cannot be paused"):
        running.service.pause(waiting.id)


def test_a_job_that_fails_says_why_and_a_retry_goes_on(running: Running):
    failed = running.wait(running.submit(config={"fail": "error"}))
    assert failed.state is JobState.FAILED and failed.message == "the data is wrong; give other data"
    assert failed.exit_code == 1
    assert running.service.retry(failed.id).state is JobState.QUEUED
    assert running.wait(failed).state is JobState.FAILED and running.service.job(failed.id).attempt == 2


def test_a_process_that_always_dies_without_progress_is_given_up(running: Running, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("brimful.service.runner.supervisor._MOST_DEATHS", 2)
    failed = running.wait(running.submit(config={"fail": "kill"}))
    assert failed.state is JobState.FAILED and "killed by signal 9, 2 times in a row" in failed.message


def test_a_graceful_stop_writes_checkpoints_and_the_next_server_goes_on(make: Make):
    first = make()
    job = first.submit(config={"epochs": 4, "pause": 0.03})
    first.wait_for_event(job, "epoch_done")
    first.service.stop()
    second = make()
    ended = second.wait(job)
    assert ended.state is JobState.FINISHED and ended.attempt == 2
    assert second.states(job) == ["queued", "running", "queued", "running", "finished"]
    alone = second.wait(second.submit(config={"epochs": 4}))
    assert alone.summary and ended.summary and alone.summary["weights"] == ended.summary["weights"]


def test_a_second_server_on_the_database_is_refused(running: Running, make: Make, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("brimful.service.store.server_lock._PATIENCE", 0.2)
    with pytest.raises(Conflict, match=r"another server uses this database: brimful serve, process \d+"):
        make()
    job = running.wait(running.submit("wait"))
    assert job.state is JobState.FINISHED


def test_a_budget_that_is_changed_counts_from_then_on(running: Running):
    large = running.submit("wait", "12GB")
    wait_for(lambda: "the largest budget is 8.00 GB" in running.service.job(large.id).message)
    running.service.set_budget("15GB")
    assert running.wait(large).state is JobState.FINISHED
    with pytest.raises(Invalid, match="not an amount"):
        running.service.set_budget("lots")


def test_delete_removes_rows_and_files(running: Running):
    job = running.submit("wait", config={"seconds": 600})
    running.wait(job, "running")
    with pytest.raises(Conflict, match="cancel it before"):
        running.service.delete(job.id)
    running.service.cancel(job.id)
    running.wait(job)
    running.service.delete(job.id)
    assert not running.service.files.job(job.id).exists()
    for call in (running.service.job, running.service.latest_event, running.service.artifacts, running.service.log):
        with pytest.raises(NotFound):
            call(job.id)


def test_a_job_reads_uploads_and_what_other_jobs_wrote_and_nothing_else(running: Running):
    service = running.service
    content = io.BytesIO()
    np.save(content, np.zeros(3))
    content.seek(0)
    upload = service.upload("x.npy", content)
    trained = running.wait(running.submit(config={"epochs": 1}))
    for value, name in (  # what it says of a path has the name that clients know
        (f"upload:{upload.id}", "upload:x.npy"),
        (f"job:{trained.id}", f"job:{trained.id}"),
        (f"job:{trained.id}/history.parquet", f"job:{trained.id}/history.parquet"),
    ):
        done = running.wait(running.submit("wait", config={"model": value}))
        assert done.summary and done.summary["model"] == name, done.message
    for value in ("/etc/passwd", "x.npy", "../x", f"job:{trained.id}/../../x", f"job:{trained.id}/no", "upload:1"):
        with pytest.raises(Invalid):
            running.submit("wait", config={"model": value})
    waiting = running.submit("wait", "100GB", config={"model": f"upload:{upload.id}"})
    with pytest.raises(Conflict, match="reads upload"):
        service.delete_upload(upload.id)
    service.cancel(waiting.id)
    service.delete_upload(upload.id)
    assert service.uploads() == []


def test_lists_are_filtered_sorted_and_paged(running: Running):
    made = [running.submit("wait", "100GB", job_name=f"job {name}", priority=place) for place, name in enumerate("bca")]
    service = running.service
    page = service.jobs(JobFilter(sort="name", limit=2))
    assert [job.request.name for job in page.jobs] == ["job a", "job b"] and page.total == 3 and page.next
    rest = service.jobs(JobFilter(sort="name", limit=2, cursor=page.next))
    assert [job.request.name for job in rest.jobs] == ["job c"] and rest.next is None
    assert [job.id for job in service.jobs(JobFilter(sort="-priority")).jobs] == [job.id for job in reversed(made)]
    assert service.jobs(JobFilter(text="JOB C")).total == 1 and service.jobs(JobFilter(text="';--")).total == 0
    service.cancel(made[0].id)
    assert service.jobs(JobFilter(states=(JobState.CANCELLED,))).jobs[0].id == made[0].id
    for wrong in ("nonsense", page.next):
        with pytest.raises(Invalid, match="cursor"):
            service.jobs(JobFilter(sort="created", cursor=wrong))


def test_tokens_are_checked_and_stored_hashed(running: Running):
    service = running.service
    token = service.create_token(["write"], "mine")
    assert service.check_token(token) == {"read", "write"}
    assert service.check_token(token[:-1] + ("a" if token[-1] != "a" else "b")) is None
    assert service.check_token("nonsense") is None
    with service.store.pool.session() as connection:
        rows = connection.execute("SELECT * FROM token").fetchall()
    assert token.encode() not in repr(rows).encode() and token.split("_", 2)[2] not in repr(rows)


def test_datasets_are_imported_by_a_job_shown_verified_and_deleted(running: Running):
    service = running.service
    content = io.BytesIO()
    np.save(content, np.arange(12.0).reshape(6, 2))
    content.seek(0)
    upload = service.upload("rows.npy", content)
    imported = running.wait(service.import_dataset("rows", upload.id))
    assert imported.state is JobState.FINISHED, imported.message
    assert service.dataset("rows")["rows"] == 6 and [one["name"] for one in service.datasets()] == ["rows"]
    assert running.wait(service.verify_dataset("rows")).state is JobState.FINISHED
    service.delete_dataset("rows")
    with pytest.raises(NotFound):
        service.dataset("rows")


def test_a_killed_process_is_started_again_and_ends_the_same(running: Running):
    alone = running.submit(config={"epochs": 3})
    job = running.submit(config={"epochs": 3, "pause": 0.05})
    running.wait_for_event(job, "epoch_done")
    with contextlib.suppress(ProcessLookupError):
        os.kill(child_of(running, job.id), signal.SIGKILL)
    ends = [running.wait(one) for one in (alone, job)]
    assert ends[0].summary and ends[1].summary and ends[0].summary["weights"] == ends[1].summary["weights"]
    lines = (running.service.files.job(job.id) / METRICS).read_text().splitlines()
    rows = running.service.metrics(job.id)
    assert sum(map(len, rows.values())) == len({tuple(line.split('"time"')[0]) for line in lines})


def test_statistics_and_readiness(running: Running):
    running.wait(running.submit("wait"))
    numbers = running.service.statistics()
    assert numbers["jobs"] == {"finished": 1} and numbers["children"] == 0 and numbers["leased_cores"] == 0
    assert running.service.ready()["ok"] and running.service.health()["ok"]


def test_old_jobs_are_pruned_with_all_that_is_recorded_of_their_runs(running: Running):
    service = running.service

    def workflows() -> set[str]:
        with service.store.pool.session() as connection:
            tables = ("workflow_status", "operation_outputs", "workflow_input", "workflow_output")
            rows = [connection.execute(f"SELECT workflow_uuid FROM dbos.{table}".encode()) for table in tables]
            return {row[0].split(".")[1] for found in rows for row in found}

    kept, old, gone = (running.wait(running.submit("wait", config={"seconds": 0})) for _ in range(3))
    wait_for(lambda: all(service._running._workflows.known(job.id, 1) is False for job in (kept, old, gone)))
    assert workflows() == {kept.id, old.id, gone.id}
    service.store.jobs.delete(gone.id)  # a server that was killed in the middle of it
    with service.store.pool.session() as connection:
        connection.execute("UPDATE job SET ended = ended - 86400 * 2 WHERE id = %s", (old.id,))
    assert service.prune(None) == [] and workflows() == {kept.id, old.id}
    assert service.prune(1.0) == [old.id] and workflows() == {kept.id}
    assert service.prune(0.0) == [kept.id] and workflows() == set()
