"""The disk is full, or the database is gone for a while: nothing that was finished is lost."""

import contextlib
import threading
from dataclasses import replace

import psycopg
import pytest

from brimful.service.child.job_dir import EVENTS
from brimful.service.errors import Unavailable
from brimful.service.jobs.lease import Demand
from brimful.service.jobs.state import JobState

from ..helpers.stopping import wait_for
from .conftest import Running


def test_a_full_disk_is_a_failure_that_a_retry_mends(running: Running):
    job = running.submit("wait", "100GB", config={"seconds": 0})  # it waits: there is time to fill the disk
    folder = running.service.files.job(job.id)
    folder.mkdir(parents=True)
    (folder / EVENTS).symlink_to("/dev/full")
    running.service.store.jobs.set_demand(job.id, _small(running, job.id))
    failed = running.wait(job)
    assert failed.state is JobState.FAILED and "the disk is full. Free some space" in failed.message
    (folder / EVENTS).unlink()
    running.service.retry(job.id)
    assert running.wait(job).state is JobState.FINISHED


def _small(running: Running, id: str) -> Demand:
    [waiting] = [one for one in running.service.store.jobs.queue() if one.job == id]
    return replace(waiting.demand, device_bytes=10**9)


def test_a_disk_that_fills_up_under_checkpoints_loses_no_finished_epoch(running: Running):
    service = running.service
    whole = running.submit(config={"epochs": 4})
    job = running.submit(config={"epochs": 4, "fail": "full"})
    failed = running.wait(job)
    assert failed.state is JobState.FAILED and failed.exit_code == 1
    assert "the disk is full. Free some space" in failed.message and "checkpoints" in failed.message
    assert service.metrics(job.id, ["train_loss"])["train_loss"]
    (service.files.job(job.id) / "space").touch()
    service.retry(job.id)
    ends = [running.wait(one) for one in (whole, job)]
    assert [end.state for end in ends] == [JobState.FINISHED] * 2, ends[1].message
    assert ends[0].summary and ends[1].summary and ends[0].summary["weights"] == ends[1].summary["weights"]
    rows = [service.metrics(one.id, ["train_loss", "lr"]) for one in (whole, job)]
    values = [{name: [(step, value) for step, _, value in points] for name, points in one.items()} for one in rows]
    assert values[0] == values[1] and len(values[0]["train_loss"]) == 4


@contextlib.contextmanager
def without_database(url: str, seconds: float):
    """The database ends all connections and lets nobody in, neither this service nor what it is built on."""
    name = url.rpartition("/t")[2].partition("?")[0]
    with psycopg.connect(url.replace(f"/t{name}?", "/postgres?"), autocommit=True) as connection:

        def let_in(wanted: bool) -> None:
            connection.execute(f"ALTER DATABASE t{name} WITH ALLOW_CONNECTIONS {wanted}".encode())

        let_in(False)
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        connection.execute(query, (f"t{name}",))
        timer = threading.Timer(seconds, let_in, [True])
        timer.start()
        try:
            yield
        finally:
            timer.join()


def check_without_database(running: Running, url: str, seconds: float, pause: float) -> None:
    service = running.service
    job = running.submit(config={"epochs": 3, "pause": pause})
    running.wait_for_event(job, "epoch_done")
    with without_database(url, seconds):
        with pytest.raises(Unavailable, match="Try again later"):  # who asks now gets this
            while True:
                service.job(job.id)
        assert not service.ready()["ok"] and service.health()["ok"]
    wait_for(service.store.reachable, pause=0.1)
    finished = running.wait(job)
    assert finished.state is JobState.FINISHED and service.store.pool.lost > 0, finished.message
    assert finished.attempt == 1
    assert [step for step, _, _ in service.metrics(job.id)["train_loss"]] == [4, 8, 12]
    kinds = [event.kind for event in service.events(job.id)]
    assert kinds.count("epoch_done") == 3 and kinds.count("finished") == 1
    after = running.wait(running.submit("wait"))
    assert after.state is JobState.FINISHED and service.ready()["ok"]


def test_a_database_that_is_gone_for_seconds_delays_and_loses_nothing(running: Running, url: str):
    check_without_database(running, url, 3.0, pause=0.1)


@pytest.mark.soak
@pytest.mark.parametrize("pause", [0.1, 10.0])  # the job ends before the database is back, or after
def test_a_database_that_is_gone_for_a_minute_delays_and_loses_nothing(running: Running, url: str, pause: float):
    check_without_database(running, url, 60.0, pause)
