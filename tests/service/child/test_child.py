"""The process of one job, without a server."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from brimful.core.runs import lock
from brimful.core.runs.events import BatchDone, EpochDone, Metric, Sampled, Warned
from brimful.service.child import run
from brimful.service.child.job_dir import ExitCode, JobFile, JobResult
from brimful.service.child.logs import EventLog, MetricLog
from brimful.service.child.parent import PARENT
from brimful.service.child.plan import smallest_good

from ...helpers import forking, job_workload
from ...helpers.madeup import Fit
from ...helpers.madeup import plan as plan_fit
from ...helpers.paths import ROOT
from ...helpers.stopping import wait_for


def run_child(folder: str) -> None:
    job_workload.register()
    sys.exit(run.main(Path(folder)))


def order(folder: Path, command: str = "wait", **config: object) -> Path:
    JobFile(id="1", workload="steps", command=command, config=config, device="cpu", budget=10**8).write(folder)
    return folder


def start(folder: Path, parent: int | None = None) -> forking.ForkedProcess:
    env = {**os.environ, PARENT: str(parent)} if parent else None
    return forking.warm().start(run_child, str(folder), env=env)


def started(folder: Path) -> bool:
    return (folder / "events.jsonl").exists() and "started" in (folder / "events.jsonl").read_text()


def test_a_job_finishes_with_its_summary_and_runs_only_once(tmp_path: Path):
    assert start(order(tmp_path)).wait(60) == ExitCode.FINISHED
    result = JobResult.read(tmp_path)
    assert result and result.summary == {"items": 1, "model": None}
    before = (tmp_path / "events.jsonl").read_text()
    assert start(tmp_path).wait(60) == ExitCode.FINISHED  # killed between its result and its end: nothing is done again
    assert (tmp_path / "events.jsonl").read_text() == before


def test_a_term_stops_it_and_the_next_one_goes_on(tmp_path: Path):
    process = start(order(tmp_path, "train", epochs=3, pause=0.05, out=str(tmp_path / "run")))
    wait_for(lambda: (tmp_path / "metrics.jsonl").exists() and "train_loss" in (tmp_path / "metrics.jsonl").read_text())
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == ExitCode.STOPPED
    result = JobResult.read(tmp_path)
    assert result and result.state == "stopped"
    assert start(tmp_path).wait(60) == ExitCode.FINISHED
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["name"] == "train_loss"] == [4, 8, 12]


def test_a_failure_is_its_message(tmp_path: Path):
    assert start(order(tmp_path, "train", fail="error")).wait(60) == ExitCode.FAILED
    result = JobResult.read(tmp_path)
    assert result and (result.state, result.error) == ("failed", "InputError") and "data is wrong" in result.message
    assert start(order(tmp_path, "nonsense")).wait(60) == ExitCode.FAILED
    result = JobResult.read(tmp_path)
    assert result and "no command 'nonsense'" in result.message


def test_a_second_process_waits_for_the_first(tmp_path: Path):
    handle = lock.take(tmp_path)
    process = start(order(tmp_path))
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    assert JobResult.read(tmp_path) is None
    lock.release(handle)
    assert process.wait(60) == ExitCode.FINISHED


def test_it_ends_with_its_parent(tmp_path: Path):
    process = start(order(tmp_path), parent=os.getpid())  # which is not its parent: that has ended already
    assert process.wait(60) == -signal.SIGKILL
    assert JobResult.read(tmp_path) is None


def test_it_imports_core_dependencies_alone(tmp_path: Path):
    program = (
        "import sys\n"
        "for name in ('fastapi', 'uvicorn', 'dbos', 'psycopg', 'starlette', 'httpx', 'nicegui', 'pydantic'):\n"
        "    sys.modules[name] = None\n"
        "from pathlib import Path\n"
        "from brimful.service.child import fork_server, plan, run\n"
        f"sys.exit(run.main(Path({str(tmp_path)!r})))\n"
    )
    config = {"count": 4, "steps": 1, "points": 2, "hidden": 2}
    JobFile(id="1", workload="nets", command="train", config=config, device="cpu", budget=10**9).write(tmp_path)
    done = forking.completed(forking.run_text, program, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
    assert done.returncode == 0, done.stderr
    result = JobResult.read(tmp_path)
    assert result and result.summary and result.summary["networks"] == 4


def test_frequent_events_are_thinned_and_the_last_is_kept(tmp_path: Path):
    now = 0.0
    log = EventLog(tmp_path / "e", clock=lambda: now)
    for number in range(100):
        now += 0.01
        log(BatchDone(items=1, bad=0, done=number, seconds=0.0, peak=0, budget=0))
        log(Sampled(used=number, process=0, utilisation=None, watts=None))
    log(Warned(message="w"))
    log.close()
    events = [json.loads(line) for line in (tmp_path / "e").read_text().splitlines()]
    done = [event["done"] for event in events if event["event"] == "batch_done"]
    assert len(done) < 8 and done[-1] == 99 and events[-1]["event"] == "warned"


def test_metrics_of_an_epoch_are_written_once(tmp_path: Path):
    log = MetricLog(tmp_path / "m")
    log(Metric(metric="loss", value=1.0, step=4))
    log(EpochDone(epoch=1, epochs=2, step=4, seconds=0.1, values={"loss": 1.0, "lr": 0.1}))
    log(Metric(metric="loss", value=0.5, step=8))
    log.close()
    rows = [json.loads(line) for line in (tmp_path / "m").read_text().splitlines()]
    assert [(row["name"], row["step"]) for row in rows] == [("loss", 4), ("lr", 4), ("loss", 8)]


def test_the_smallest_good_budget_keeps_the_strategy():
    def plan(bytes: int):
        return plan_fit(Fit(points=100, budget=f"{bytes} B"), False)

    whole, bytes = smallest_good(plan, 16 * 10**9)
    assert plan(bytes).strategy == whole.strategy and bytes < 16 * 10**9
    assert plan(bytes).batch * 8 >= plan(16 * 10**9).batch
    assert whole.to_dict() == plan(bytes).to_dict()  # what is shown is what the job plans with its lease
    assert smallest_good(plan, 10**9)[0].to_dict() == plan(smallest_good(plan, 10**9)[1]).to_dict()
