"""Values as people read them, and jobs as commands; no browser is needed."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jinja2 import DictLoader, Environment

from brimful.core.declare import registry
from brimful.service.child.job_dir import RUN
from brimful.service.dashboard.commands import as_command_line, as_curl, as_python, changed_options
from brimful.service.dashboard.examples import EXAMPLES
from brimful.service.dashboard.headers import PageHeaders, content_policy, mark_scripts
from brimful.service.dashboard.login import _own_path
from brimful.service.dashboard.pages import devices
from brimful.service.dashboard.pages.compare import _numbers, of_all, run_names
from brimful.service.dashboard.pages.data import result_of
from brimful.service.dashboard.parts.form.form_fields import by_field
from brimful.service.dashboard.parts.job.config_view import option_value
from brimful.service.dashboard.parts.job.history_view import event_entries
from brimful.service.dashboard.parts.job.job_head import _facts, details, use_facts
from brimful.service.dashboard.parts.job.plan_view import observed_parts
from brimful.service.dashboard.parts.plots.curves import _rounded, memory_unit, use_of_device
from brimful.service.dashboard.values import (
    counted,
    exact,
    fraction,
    job_row,
    rate,
    recordings_number,
    result_name,
    result_value,
    seconds_left,
    seconds_taken,
    seconds_worked,
    short,
)
from brimful.service.errors import FieldProblem
from brimful.service.jobs.job import Job, JobRequest, Progress, StoredEvent
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
    progress = Progress(done=50, items=100, seconds=10.0, wall=15.0, began=120.0)  # it imports for 20 seconds
    half = job(state=JobState.RUNNING, progress=progress, lease=lease)
    assert fraction(half) == 0.5
    assert rate(half, 130.0) == 50 / 20
    assert seconds_left(half, 130.0) == pytest.approx(20.0)
    assert seconds_taken(half, 130.0) == 45.0
    assert job_row(half, 130.0)["memory"] == "up to 8 B"
    busy = replace(half, progress=replace(progress, peak=6), message="waits for memory")
    row = job_row(busy, 130.0)
    shown = {name: row[name] for name in ("progress", "left", "rate", "memory", "took", "message")}
    assert shown == {
        "progress": "50 of 100",
        "left": "20 s",
        "rate": "2.5/s",
        "memory": "6 B of 8 B",
        "took": "45.0 s",
        "message": "waits for memory",
    }
    stated = job_row(replace(busy, state=JobState.CANCELLED, message="cancelled"))
    assert stated["message"] == "" and stated["what"] == "gp fit"
    assert job_row(replace(busy, request=replace(busy.request, priority=5)))["what"] == "gp fit, priority 5"
    resumed = job(state=JobState.RUNNING, progress=replace(progress, began=90.0), lease=lease)
    assert seconds_worked(resumed, 130.0) == 10.0  # its part at hand has not begun
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
    leases = [{"id": "1", "job_name": "a", "bytes": 7, "used_bytes": 5}]
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
    pq.write_table(pa.table({"x": list(range(1024))}), place / "results.parquet")
    report = read_report(tmp_path, None)
    assert list(report["tables"]) == ["results"] and report["rows"] == {"results": 1024}
    assert len(report["tables"]["results"]) == 1000


def test_results_are_compared_by_name_and_what_every_run_has_comes_last():
    summary = {"seconds": 1.0, "compiling_seconds": None, "loss": 2.0, "budget_bytes": 3, "accuracy": 4.0}
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
    words = shlex.split(as_command_line(job(), options, "http://here", SCHEMA))
    asked = ["--url", "http://here", "--job-name", "it's <b>", "gp", "fit", "upload:1", "--no-fast"]
    assert words == ["brimful", "jobs", "submit", *asked]
    assert shlex.split(as_curl(job(), options, "http://here"))[3] == "http://here/api/training/jobs"
    compile(as_python(job(), options, "http://here"), "job", "exec")
    with_cores = replace(job(), request=replace(job().request, cores=2))
    assert shlex.split(as_command_line(with_cores, options, "http://here", SCHEMA))[7:9] == ["--cores", "2"]
    assert "cores=2" in as_python(with_cores, options, "http://here")
    told = shlex.split(as_curl(job(), options, "http://here", token=True))
    assert told[told.index("Authorization: Bearer $BRIMFUL_TOKEN") - 1] == "-H"


def test_an_uploaded_file_is_shown_with_its_name():
    id = "01a1eac1-e630-772f-94e5-493d84cc78f5"
    value = f"upload:{id}/a b.csv,upload:{id},moons"
    assert option_value(value, {id: "x.zip"}) == f"upload:{id}/a b.csv (x.zip),upload:{id} (x.zip),moons"
    assert option_value(value, {}) == value and option_value(0.5, {id: "x"}) == "0.5"


def test_results_are_written_with_their_units():
    shown = {"seconds": 75.0, "p50_m": 5765.43, "stall_share": 0.031, "peak_bytes": 8 * 10**9, "loss": 8.28038}
    texts = [f"{result_name(name)} {result_value(name, value)}" for name, value in shown.items()]
    assert texts == ["time 1m15s", "p50 5,765 m", "stall 3.1%", "peak 8.00 GB", "loss 8.28"]
    assert result_value("best", None) == "–" and result_value("items", 123456) == "123,456"
    assert [exact(3000), exact(-12_345), exact(999), exact(True)] == ["3,000", "-12,345", "999", "yes"]
    assert [counted(1, "item"), counted(1200, "row")] == ["1 item", "1,200 rows"]


def test_of_plans_that_follow_one_another_the_last_is_shown():
    kinds = ["state", "planned", "planned", "batch_done", "planned", "started", "planned"]
    events = [StoredEvent(id=number, time=0.0, kind=kind, data={}) for number, kind in enumerate(kinds)]
    assert [entry["id"] for entry in event_entries(events)] == [0, 4, 5, 6]
    assert event_entries([]) == []


def test_a_problem_belongs_to_the_fields_that_it_names():
    fields = ("config.data", "config.synthetic", "config.batch_size", "webhook")
    problem = FieldProblem("config", "give either --data NAME|DIR, or --synthetic N or --batch-size 3")
    text = "give either data, or synthetic or batch size 3"
    assert by_field(problem, fields) == [(f"config.{name}", text) for name in ("data", "synthetic", "batch_size")]
    assert by_field(FieldProblem("webhook.url", "no"), fields) == [("webhook", "no")]
    assert by_field(FieldProblem("config", "no"), fields) == []


def test_the_example_of_a_dataset_can_be_started_again():
    [example] = [one for one in EXAMPLES if one.workload == "data"]
    running = job(state=JobState.RUNNING)
    running.request.config["dataset"] = "example-numbers-2"
    service = SimpleNamespace(
        upload=lambda name, stream: SimpleNamespace(id="1"),
        datasets=lambda: [{"name": "example-numbers"}],
        jobs=lambda asked: SimpleNamespace(jobs=[running]),
    )
    asked = example.request(service)  # pyright: ignore[reportArgumentType]
    assert asked["config"]["dataset"] == "example-numbers-3"


def test_what_a_check_of_a_dataset_came_to():
    assert result_of(job(summary={"rows": 1200, "faults": []})) == "1,200 rows, no faults"
    assert result_of(job(summary={"rows": 3, "faults": ["chunk 1 is torn"]})) == "3 rows, 1 fault: chunk 1 is torn"
    assert result_of(job(message="waits")) == "waits" and result_of(job()) == ""
    assert recordings_number("locate-3-12") == "3" and recordings_number("numbers") is None


def test_runs_of_one_name_are_told_apart_and_a_result_does_not_hide_the_state():
    runs = [replace(job(), id=f"000000-{number}") for number in ("aaaaaa", "bbbbbb")]
    assert run_names(runs) == ["it's <b> (aaaaaa)", "it's <b> (bbbbbb)"]
    assert run_names(runs[:1]) == ["it's <b>"]
    assert _numbers(job(state=JobState.FINISHED, summary={"state": "of a dataset"}))["state"] == "finished"


def test_looks_at_a_device_are_curves_of_what_is_known():
    looks = [
        StoredEvent(id=3, time=5.0, kind="sampled", data={"used": 2 * 10**9, "utilisation": 0.5, "watts": None}),
        StoredEvent(id=9, time=7.0, kind="sampled", data={"used": 10**9, "utilisation": None, "watts": 300.0}),
    ]
    series = use_of_device(looks, memory_unit(80 * 10**9))
    assert series["memory, GB"] == [(3, 5.0, 2.0), (9, 7.0, 1.0)]
    assert use_of_device(looks[1:], memory_unit(10**9))["memory, MB"] == [(9, 7.0, 1000.0)]
    assert series["utilisation, %"] == [(3, 5.0, 50.0)] and series["power, W"] == [(9, 7.0, 300.0)]


def test_there_is_an_example_of_every_workload():
    assert {example.workload for example in EXAMPLES} == set(registry.WORKLOADS) & set(registry.names()) - {"steps"}


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "https://evil.example", "", "/a\nb"])
def test_logging_in_leads_nowhere_else(path: str):
    assert _own_path(path) == "/"
    assert _own_path("/jobs/1?a=b") == "/jobs/1?a=b"


def test_a_script_that_got_into_a_page_has_no_number_that_lets_it_run():
    environment = Environment(loader=DictLoader({"page": "<script>ours()</script>{{ value }}"}))
    environment.get_template("page")  # kept from before
    mark_scripts(environment)
    mark_scripts(environment)
    page = environment.get_template("page").render(value='<script>theirs()</script><script nonce="">x</script>')
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": page.encode()})

    async def send(message: Any) -> None:
        sent.append(message)

    run_apart(PageHeaders(app)({"type": "http"}, None, send))  # pyright: ignore[reportArgumentType]
    body, headers = sent[1]["body"].decode(), dict(sent[0]["headers"])
    nonce = re.findall(r'<script nonce="([^"]+)">(.*?)</script>', body)
    assert [script for _, script in nonce] == ["ours()"]
    assert f"'nonce-{nonce[0][0]}'" in headers[b"content-security-policy"].decode()


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


def test_a_device_is_as_busy_as_last_sampled_and_in_the_end_as_on_average():
    looks = [{"utilisation": 0.2, "watts": None}, {"utilisation": 0.9, "watts": 700.0}, {"watts": 500.0}]
    samples = [StoredEvent(id=number, time=0.0, kind="sampled", data=look) for number, look in enumerate(looks)]

    def shown(samples: list[StoredEvent], *, ended: bool) -> dict[str, str]:
        return {name: text for name, text in use_facts(samples, ended).items() if text}

    assert shown(samples, ended=False) == {"Utilisation": "90%", "Power": "500 W"}
    assert shown(samples, ended=True) == {"Mean utilisation": "55%", "Mean power": "600 W"}
    assert shown(samples[:1], ended=True) == shown([], ended=False) == {}  # one look is no average


def test_what_a_job_was_given_of_the_machine_is_one_line():
    lease = {"device": "cuda:0", "cores": 2, "host_bytes": 6 * 10**8}
    assert details(job()) == "priority 0"
    assert details(job(lease=lease)) == "priority 0, on cuda:0, 2 cores, 600 MB of host memory"
