"""Values as people read them, and jobs as commands; no browser is needed."""

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from brimful.core.declare import registry
from brimful.service.child.job_dir import RUN
from brimful.service.dashboard.commands import as_command_line, as_curl, as_python, changed_options
from brimful.service.dashboard.examples import EXAMPLES
from brimful.service.dashboard.headers import content_policy
from brimful.service.dashboard.login import _own_path
from brimful.service.dashboard.pages import devices
from brimful.service.dashboard.pages.compare import _numbers, of_all
from brimful.service.dashboard.parts.curves import _rounded
from brimful.service.dashboard.parts.job_head import _facts
from brimful.service.dashboard.parts.plan_view import observed_parts
from brimful.service.dashboard.values import fraction, rate, seconds_left, short
from brimful.service.jobs.job import Job, JobRequest, Progress
from brimful.service.jobs.state import JobState
from brimful.service.report_files import read_report

from ...helpers.asynchronous import run_apart

SCHEMA: dict[str, Any] = {
    "properties": {
        "count": {"type": "integer", "default": 10},
        "file": {"type": "string", "positional": True},
        "fast": {"type": "boolean", "default": True},
    },
    "required": ["file"],
}


def job(**values: Any) -> Job:
    config = {"count": 10, "file": "upload:1", "fast": False}
    return Job(id="1", request=JobRequest(name="it's <b>", workload="gp", command="fit", config=config), **values)


def test_how_long_a_job_will_take():
    lease = {"since": 100.0, "device_bytes": 8}
    half = job(state=JobState.RUNNING, progress=Progress(done=50, items=100, seconds=10.0), lease=lease)
    assert fraction(half) == 0.5
    assert rate(half, 130.0) == 50 / 40
    assert seconds_left(half, 130.0) == pytest.approx(40.0)
    assert seconds_left(job(progress=Progress(done=5, items=10)), 1.0) is None
    assert fraction(job(state=JobState.RUNNING)) is None


def test_what_is_known_of_the_peak_by_part():
    names = ["optimizer", "data", "gradients", "working memory"]
    known = {"optimizer": 20, "gradients": 10, "parameters": 10}  # the plan does not have parameters: not of its peak
    seen = {"optimizer": 20, "gradients": 10, "working memory": 70, "Peak": 100}
    assert observed_parts(names, 100, known) == seen
    assert observed_parts(["all of it"], 100, {}) == {"Peak": 100}
    assert observed_parts(names, None, known) == {}
    assert observed_parts(names, 25, known)["working memory"] == 0


def test_memory_of_devices_is_kept_for_half_an_hour_in_few_bytes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(devices, "_PACE", 0.0)
    leases = [{"id": "1", "job_name": "a", "bytes": 5}]
    device = {"device": "cpu", "memory_bytes": 10, "free_bytes": 3, "jobs": leases}
    service = SimpleNamespace(devices=lambda: [{**device, "jobs": [dict(lease) for lease in leases]}])
    samples = devices._Samples()

    async def read() -> None:
        for _ in range(devices._KEPT + 5):
            await samples.read(SimpleNamespace(service=service))  # pyright: ignore[reportArgumentType]

    run_apart(read())
    rows = samples.rows["cpu"]
    assert len(rows) == devices._KEPT and rows[-1][1:] == (7, (("1", "a", 5),))
    assert len({id(row[2]) for row in rows}) == 1


def test_a_report_shows_tables_and_not_how_items_are_stored(tmp_path: Path):
    place = tmp_path / RUN
    place.mkdir()
    for name in ("shard-000000000000-000000000002", "shard-000000000002-000000000004"):
        pq.write_table(pa.table({"x": [1, 2]}), place / f"{name}.parquet")
    assert list(read_report(tmp_path, None)["tables"]) == ["shard-000000000000-000000000002"]
    pq.write_table(pa.table({"x": [1]}), place / "results.parquet")
    assert list(read_report(tmp_path, None)["tables"]) == ["results"]


def test_results_are_compared_by_name_and_what_every_run_has_comes_last():
    summary = {"seconds": 1.0, "loss": 2.0, "budget_bytes": 3, "accuracy": 4.0}
    assert list(_numbers(job(summary=summary))) == ["state", "accuracy", "loss", "seconds", "budget_bytes"]


def test_points_of_a_curve_are_not_lists_which_would_each_get_an_observer():
    rounded = _rounded({"loss": [(1, 1.23, 0.123456789)]})
    assert rounded == {"loss": ((1, 1.2, 0.123457),)}


@pytest.mark.parametrize(("number", "text"), [(950, "950"), (12_345, "12.3k"), (4.56e6, "4.56M"), (0.5, "0.5")])
def test_short_numbers(number: float, text: str):
    assert short(number) == text


def test_a_job_as_commands_has_what_differs_and_no_more():
    options = changed_options(job().request.config, SCHEMA)
    assert options == {"file": "upload:1", "fast": False}
    words = shlex.split(as_command_line(job(), options, SCHEMA))
    assert words == ["brimful", "jobs", "submit", "--job-name", "it's <b>", "gp", "fit", "upload:1", "--no-fast"]
    assert shlex.split(as_curl(job(), options, "http://here"))[3] == "http://here/api/training/jobs"
    compile(as_python(job(), options, "http://here"), "job", "exec")


def test_there_is_an_example_of_every_workload():
    assert {example.workload for example in EXAMPLES} == set(registry.WORKLOADS) & set(registry.names()) - {"steps"}


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "https://evil.example", "", "/a\nb"])
def test_logging_in_leads_nowhere_else(path: str):
    assert _own_path(path) == "/"
    assert _own_path("/jobs/1?a=b") == "/jobs/1?a=b"


def test_the_policy_names_every_source():
    policy = content_policy("abc")
    assert "https:" not in policy and "*" not in policy and "script-src 'self' 'nonce-abc' 'unsafe-eval'" in policy


def test_of_runs_of_different_workloads_what_all_have_is_compared():
    runs = [{"epochs": 3, "centers": 50}, {"epochs": 20, "network": "small"}]
    assert of_all(runs, mixed=True) == [{"epochs": 3}, {"epochs": 20}]
    assert of_all(runs, mixed=False) == runs


def test_the_stall_share_is_shown_while_a_job_runs_and_is_its_results_in_the_end():
    running = job(state=JobState.RUNNING)
    assert _facts(running)["Stall share"] == ""
    assert _facts(running, stall=0.25)["Stall share"] == "25.0%"
    assert _facts(job(state=JobState.FINISHED, summary={"stall_share": 0.5}), stall=0.25)["Stall share"] == "50.0%"
