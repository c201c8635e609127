"""`brimful jobs` against a real server over a service in memory."""

import json
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from brimful.cli.app import app, main
from brimful.core.declare import registry
from brimful.core.runs.events import Finished, Started
from brimful.service import address
from brimful.service.client import local_server
from brimful.service.dashboard.commands import as_command_line, changed_options
from brimful.service.errors import Unavailable
from brimful.service.jobs.request import job_schema
from brimful.service.jobs.state import JobState

from ..helpers import forking
from ..helpers.fake_service import FakeService
from ..helpers.served import Served
from ..helpers.stopping import wait_for
from ..service.client.conftest import running, server, service

__all__ = ["running", "server", "service"]  # fixtures


@pytest.fixture(autouse=True)
def url(server: Served, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("BRIMFUL_URL", server.url)
    return server.url


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["jobs", *arguments])


def ok(*arguments: str, code: int = 0) -> str:
    result = invoke(*arguments)
    assert result.exit_code == code, result.stderr
    return result.stdout


def fails(*arguments: str, code: int = 1) -> str:
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert "Traceback" not in result.stderr
    return result.stderr


def ok_json(*arguments: str) -> Any:
    return json.loads(ok(*arguments, "--json"))


def test_a_command_is_submitted_with_its_own_options(service: FakeService, monkeypatch: pytest.MonkeyPatch):
    sent: list[Any] = []
    submit = service.submit
    monkeypatch.setattr(service, "submit", lambda request: sent.append(dict(request)) or submit(request))
    options = "--job-name tiny --priority 5 --lease 1GB --cores 2 --webhook https://example.org/x"
    job = ok_json("submit", *options.split(), *["nets", "train", "--count", "4", "--steps", "200"])
    assert job["job_name"] == "tiny"
    assert sent == [
        {
            "job_name": "tiny",
            "workload": "nets",
            "command": "train",
            "config": {"count": 4},  # 200 steps are the default
            "priority": 5,
            "budget": "1GB",
            "cores": 2,
            "webhook": {"url": "https://example.org/x"},
        }
    ]


def test_the_command_line_of_a_jobs_page_makes_the_same_job(
    service: FakeService, url: str, monkeypatch: pytest.MonkeyPatch
):
    config = {"data": "moons", "grad_clip": None, "steps": None, "centers": 7, "best": False, "lr": 1e-5}
    request = {"job_name": "a 'b' -c", "workload": "wpo", "command": "train", "priority": -5, "cores": 2}
    job = service.submit({**request, "config": config})
    schema = job_schema(registry.load("wpo").command("train"))
    words = shlex.split(as_command_line(job, changed_options(job.request.config, schema), url, schema))
    assert words[:3] == ["brimful", "jobs", "submit"] and words.count("none") == 2
    monkeypatch.setenv("BRIMFUL_URL", "http://127.0.0.1:1")  # it names its server itself
    again = ok_json(*words[2:])
    assert service.job(again["id"]).request == job.request


def test_a_wrong_option_never_leaves_this_machine(service: FakeService):
    assert "--count is 0; it must be at least 1" in fails("submit", "nets", "train", "--count", "0", code=2)
    assert "No such option" in fails("submit", "nets", "train", "--cout", "4", code=2)
    assert "--out" in fails("submit", "nets", "train", "--out", "/tmp/x", code=2)
    assert service.stored == {}


def test_files_of_this_machine_are_uploaded(service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "points.csv").write_text("id,x,y\n1,2,3\n")
    monkeypatch.chdir(tmp_path)
    job = ok_json("submit", "gp", "fit", "--data", "points.csv")
    [upload] = service.files.values()
    assert (upload.name, job["config"]["data"]) == ("points.csv", f"upload:{upload.id}")


def test_only_commands_that_can_be_jobs_are_offered():
    shown = ok("submit", "gp", "--help")
    assert "fit" in shown and "report" not in shown
    assert "No such command 'report'" in fails("submit", "gp", "report", code=2)


def test_listing_and_showing(service: FakeService):
    first, second = service.add("first"), service.add("second", JobState.FAILED)
    service.stored[second.id] = replace(
        service.stored[second.id],
        message="out of luck",
        summary={"mean_loss": 0.25},
        lease={"device": "cuda:0", "device_bytes": 8_000_000_000, "cores": 2},
    )
    lines = ok("list").splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [[first.id, "first"], [second.id, "second"]]
    page = ok_json("list", "--state", "failed", "--limit", "1")
    assert [job["id"] for job in page["jobs"]] == [second.id]
    assert "and 1 more" in ok("list", "--limit", "1")
    shown = re.sub(r" +", " ", ok("show", second.id))
    for part in ("state failed: out of luck", "lease cuda:0, 8.00 GB, 2 cores", "mean loss 0.25"):
        assert part in shown
    assert ok_json("show", "last")["id"] == first.id
    service.stored.clear()
    assert ok("list") == "no jobs\n"
    assert "there is no job 'last'" in fails("show", "last")


def test_a_job_is_named_by_any_part_of_its_id(service: FakeService):
    first, second = service.add(), service.add()
    assert ok_json("show", first.id[-8:])["id"] == first.id
    assert "2 jobs have '-' in their id" in fails("show", "-")
    assert "there is no job" in fails("cancel", first.id, "nothing-like-it")
    assert ok("pause", first.id, second.id).splitlines() == [f"{first.id}  paused", f"{second.id}  paused"]
    assert [job["state"] for job in ok_json("resume", first.id[-8:])["jobs"]] == ["queued"]
    assert ok("cancel", first.id).endswith("cancelled\n")
    assert ok("retry", first.id).endswith("queued\n")
    assert "cannot be retried" in fails("retry", second.id)


@pytest.mark.parametrize(
    ("state", "code"),
    [(JobState.FINISHED, 0), (JobState.FAILED, 3), (JobState.CANCELLED, 4), (JobState.PAUSED, 5)],
)
def test_watching_exits_by_how_the_job_ended(service: FakeService, state: JobState, code: int):
    job = service.add(state=JobState.RUNNING)
    for event in (
        Started(work="gp fit", items=10, done=0, budget=0),
        Finished(state="finished", done=10, bad=0, seconds=20.0),
    ):
        values = event.to_dict()
        service.emit(job.id, values.pop("event"), **values)
    service.move(job.id, state)
    result = invoke("watch", job.id, "--json")
    assert result.exit_code == code
    assert json.loads(result.stdout)["state"] == state.value
    assert result.stderr.splitlines()[:2] == ["gp fit: 10 items", "gp fit: finished, 10 items in 20.0 s"]


def test_a_job_is_submitted_and_watched(service: FakeService, monkeypatch: pytest.MonkeyPatch):
    submit = service.submit

    def finished(request: Any) -> Any:
        return service.move(submit(request).id, JobState.FINISHED)

    monkeypatch.setattr(service, "submit", finished)
    assert "finished" in ok("submit", "--watch", "nets", "train", "--count", "4")


def watching(url: str, id: str) -> None:
    sys.argv = ["brimful", "jobs", "watch", id, "--url", url]
    main()


def test_ctrl_c_ends_watching_and_not_the_job(url: str, service: FakeService):
    job = service.add(state=JobState.RUNNING)
    values = Started(work="gp fit", items=10, done=0, budget=0).to_dict()
    service.emit(job.id, values.pop("event"), **values)
    with forking.Captured(watching, url, job.id) as process:
        wait_for(lambda: service_read(process, "gp fit: 10 items"))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(60)
    assert (process.returncode, out) == (130, "")
    assert f"the job {job.id} goes on" in err and f"brimful jobs cancel {job.id}" in err
    assert service.stored[job.id].state is JobState.RUNNING


def service_read(process: Any, text: str) -> bool:
    stream = process._streams[1]
    stream.seek(0)
    return text in stream.read()


def test_logs_to_their_end(service: FakeService):
    job = service.add(state=JobState.RUNNING)
    assert ok("logs", job.id) == "grüße\n"
    timer = threading.Timer(0.05, service.move, (job.id, JobState.FINISHED))
    timer.start()
    assert ok("logs", job.id, "--follow") == "grüße\n"
    timer.join()


def test_artifacts_are_listed_and_downloaded(service: FakeService, tmp_path: Path):
    job = service.add()
    assert "a.txt" in ok("artifacts", job.id)
    assert ok_json("artifacts", job.id, "--name", "b.txt") == {"artifacts": []}
    ok("artifacts", job.id, "--download", str(tmp_path / "here"))
    assert (tmp_path / "here" / "a.txt").read_text() == "a"


def test_pruning_says_what_it_removes(service: FakeService):
    old = service.add("old", JobState.FINISHED)
    service.stored[old.id] = replace(service.stored[old.id], ended=1000.0)
    assert ok("prune", "--days", "30", "--dry-run").splitlines() == [
        f"{old.id}  finished  old",
        "1 job would be removed",
    ]
    assert ok("prune", "--days", "30", "--state", "failed") == "0 jobs removed\n"
    assert [job["id"] for job in ok_json("prune", "--days", "30")["removed"]] == [old.id]
    assert service.stored == {}
    assert "--days" in fails("prune", code=2)


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.delenv("BRIMFUL_URL")
    monkeypatch.setenv("BRIMFUL_STATE_DIR", str(tmp_path / "state"))
    yield tmp_path / "state"


def test_the_server_of_this_machine_is_used_or_started(
    own_state: Path, url: str, service: FakeService, monkeypatch: pytest.MonkeyPatch
):
    started: list[Path] = []

    def start(folder: Path, options: list[str]) -> address.Address:
        started.append(folder)
        address.publish(folder, url)
        there = address.published(folder)
        assert there is not None
        return there

    monkeypatch.setattr(local_server, "_start", start)
    first = invoke("list")
    assert (first.exit_code, first.stdout) == (0, "no jobs\n")
    assert f"started a server on this machine at {url} (process {os.getpid()}, log" in first.stderr
    second = invoke("list")
    assert (second.exit_code, second.stderr, started) == (0, "", [own_state])


def test_a_server_that_does_not_start_says_why(own_state: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(Unavailable, match=r"ended with code 1 as it started: .*server.log ends with"):
        local_server.ensure()


def test_without_the_extra_the_command_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    assert "pip install 'brimful[serve]'" in fails("list")
