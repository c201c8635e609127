"""What the server asks of processes that have the workloads imported."""

import os
import signal
from collections.abc import Iterator

import psutil
import pytest

from brimful.core.base.errors import ConfigError, WorkerError
from brimful.service.errors import Invalid, Unavailable
from brimful.service.runner import processes
from brimful.service.runner.workloads import Workloads

from ...helpers.service_processes import ForkedForkServer
from ...helpers.stopping import wait_for

MADE = {"job_name": "a job", "workload": "made", "command": "fit"}


@pytest.fixture
def workloads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workloads]:
    monkeypatch.setattr(processes, "launch", ForkedForkServer)
    spawner = processes.Spawner()
    made = Workloads(spawner, lambda: "postgresql://nowhere/none")
    yield made
    made.close()
    spawner.close()


def kept(workloads: Workloads) -> psutil.Process:
    assert workloads._kept is not None
    return psutil.Process(workloads._kept._child.pid)


def test_requests_are_checked_and_commands_described_elsewhere(workloads: Workloads):
    request = workloads.parse(
        {**MADE, "config": {"points": 3}, "webhook": {"url": "http://a.b/", "secret": "12345678"}}
    )
    assert request.config["points"] == 3 and request.webhook and request.webhook.secret == "12345678"
    assert kept(workloads).pid != os.getpid()
    with pytest.raises(Invalid) as caught:
        workloads.parse({**MADE, "config": {"points": 0, "colour": "red"}})
    assert {problem.path for problem in caught.value.problems} == {"config.points", "config.colour"}
    described = workloads.command("made", "fit")
    assert described.plans and described.has("budget") and "points" in described.schema["properties"]
    with pytest.raises(ConfigError, match="no command 'nonsense'"):
        workloads.command("made", "nonsense")
    assert workloads.check(request, request.config) == "auto"


def test_a_plan_has_a_process_of_its_own_which_ends(workloads: Workloads):
    request = workloads.parse({**MADE, "config": {"points": 100}})
    made = workloads.plan(request, request.config, {"CUDA_VISIBLE_DEVICES": ""}, device="cpu", most=16 * 10**9)
    assert made["plan"] and made["text"] and made["device_bytes"] < 16 * 10**9
    siblings = psutil.Process(kept(workloads).ppid())
    wait_for(lambda: len(siblings.children()) == 1)
    with pytest.raises(ConfigError, match="the least is 1MB"):
        workloads.plan(request, request.config, {}, device="cpu", most=10**9, budget=1)


def test_a_process_that_dies_is_replaced_and_one_that_hangs_is_killed(
    workloads: Workloads, monkeypatch: pytest.MonkeyPatch
):
    workloads.parse({**MADE})
    first = kept(workloads)
    first.send_signal(signal.SIGKILL)
    workloads.parse({**MADE})
    second = kept(workloads)
    assert second.pid != first.pid
    monkeypatch.setattr("brimful.service.runner.workloads._PATIENCE", 0.3)
    with pytest.raises(Unavailable, match="no answer to 'sleep' within"):
        workloads._call("sleep", seconds=600)
    wait_for(lambda: not second.is_running() or second.status() == psutil.STATUS_ZOMBIE)
    monkeypatch.setattr("brimful.service.runner.workloads._PATIENCE", 60.0)
    with pytest.raises(WorkerError, match="ZeroDivisionError: a mistake"):
        workloads._call("fail")


def test_the_fork_server_dies_and_another_one_answers(workloads: Workloads):
    workloads.parse({**MADE})
    psutil.Process(kept(workloads).ppid()).kill()
    assert workloads.parse({**MADE}).workload == "made"
