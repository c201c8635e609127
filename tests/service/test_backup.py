"""A copy of a running server, made and restored as the manual says."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from brimful.data.database.server import _programs
from brimful.service.jobs.state import JobState
from brimful.service.options import ServeOptions
from brimful.service.service import Service

from ..helpers.paths import ROOT
from .conftest import Make, Running

MANUAL = (ROOT / "docs" / "serve.md").read_text().partition("### Backup and restore")[2].partition("\n### ")[0]


def typed(command: str, **values: str) -> None:
    """Types a command of the manual, with the names that it has filled in."""
    [line] = [line.strip() for line in MANUAL.splitlines() if line.strip().startswith(command)]
    environment = {"PATH": f"{_programs(Path('/none'))}:/usr/bin:/bin", **values}
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, cwd=values["FOLDER"])
    assert done.returncode == 0, done.stderr


@pytest.fixture
def restored_url(url: str) -> Iterator[str]:
    """Of a database that is not there yet, and is removed."""
    name = url.rpartition("/")[2].partition("?")[0]
    yield url.replace(f"/{name}?", f"/{name}_copy?")
    with psycopg.connect(url.replace(f"/{name}?", "/postgres?"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}_copy WITH (FORCE)".encode())


def test_a_copy_of_a_running_server_is_restored_and_goes_on(make: Make, url: str, restored_url: str, tmp_path: Path):
    first = make()
    finished = first.wait(first.submit(config={"epochs": 2}))
    interrupted = first.submit(config={"epochs": 4, "pause": 0.05})
    waiting = first.submit("wait", "10GB")
    first.wait_for_event(interrupted, "epoch_done")
    typed("pg_dump", FOLDER=str(tmp_path), BRIMFUL_DATABASE_URL=url)
    typed("tar --create", FOLDER=str(tmp_path), STATE=str(tmp_path / "state"))
    uninterrupted = first.wait(interrupted)
    before = {
        "job": finished.to_dict(),
        "metrics": first.service.metrics(finished.id),
        "events": first.service.events(finished.id),
        "report": first.service.report(finished.id),
        "history": first.service.artifact(finished.id, "history.parquet").read_bytes(),
    }
    first.service.stop()
    shutil.rmtree(tmp_path / "state")

    state = tmp_path / "restored"
    state.mkdir(mode=0o700)
    new = restored_url.rpartition("/")[2].partition("?")[0]
    typed("createdb", FOLDER=str(tmp_path), POSTGRES_URL=url, DATABASE=new)
    typed("pg_restore", FOLDER=str(tmp_path), BRIMFUL_DATABASE_URL=restored_url)
    typed("tar --extract", FOLDER=str(tmp_path), STATE=str(state))
    service = Service(ServeOptions(state=state, database=restored_url, cores=4, budget="8GB"))
    service.start()
    second = Running(service)
    try:
        assert before == {
            "job": service.job(finished.id).to_dict(),
            "metrics": service.metrics(finished.id),
            "events": service.events(finished.id),
            "report": service.report(finished.id),
            "history": service.artifact(finished.id, "history.parquet").read_bytes(),
        }
        gone_on = second.wait(interrupted)
        assert gone_on.state is uninterrupted.state is JobState.FINISHED, gone_on.message
        assert gone_on.summary and uninterrupted.summary
        assert gone_on.summary["weights"] == uninterrupted.summary["weights"]
        assert len(service.metrics(interrupted.id)["train_loss"]) == 4
        assert service.job(waiting.id).state is JobState.QUEUED
        service.set_budget("12GB")
        assert second.wait(waiting).state is JobState.FINISHED
    finally:
        service.stop(grace=0)
