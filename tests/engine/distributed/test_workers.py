"""The process supervisor: messages, every way in which a worker can end, and nothing left running."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from brimful import InputError, WorkerError
from brimful.engine.distributed.workers import Answer, Event, LocalWorkers

from ...helpers.forking import completed, run_path
from ...helpers.paths import ROOT
from . import worker_functions as functions

PATIENCE = 120.0


def answers(workers: LocalWorkers, count: int = 10**6) -> list[Answer]:
    """What the workers answer until all have ended, or so many answers."""
    received: list[Answer] = []
    until = time.monotonic() + PATIENCE
    while workers.running and len(received) < count:
        assert time.monotonic() < until
        if (answer := workers.receive(1.0)) is not None:
            received.append(answer)
    return received


def ended(pid: int) -> bool:
    until = time.monotonic() + PATIENCE
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def test_workers_answer_until_each_ends_its_own_way():
    """Six of them at once, since starting a process is what takes time."""
    with LocalWorkers() as workers:
        workers.start("echo", functions.echo, 2)
        workers.start("wrong", functions.fail, KeyError("no such thing"))
        workers.start("unportable", functions.fail_unportably)
        workers.start("dead", functions.die, 9)
        workers.start("threads", functions.from_threads, 20)
        workers.start("environment", functions.environment, threads=3)
        assert workers.names[3] == "dead" and workers.running == set(range(6))
        workers.send(0, "one")
        workers.send(0, {"two": 2})
        by_worker: dict[int, list[Answer]] = {number: [] for number in range(6)}
        for answer in answers(workers):
            by_worker[answer.worker].append(answer)
        assert workers.receive(1.0) is None
        workers.send(3, "nobody hears this")
    echoed = by_worker[0]
    assert [answer.event for answer in echoed] == [Event.SENT, Event.SENT, Event.RETURNED]
    assert [answer.value[1] for answer in echoed[:2]] == ["one", {"two": 2}]
    assert echoed[0].value[0] != os.getpid() and echoed[2].value == "done"
    (wrong,), (unportable,), (dead,) = by_worker[1], by_worker[2], by_worker[3]
    assert wrong.event is Event.RAISED and isinstance(wrong.value, KeyError) and "no such" in str(wrong.value)
    assert unportable.event is Event.RAISED and isinstance(unportable.value, WorkerError)
    assert str(unportable.value) == "Unportable: code 7"
    assert dead == Answer(3, Event.DIED, "exit code 9")
    sent = [answer.value for answer in by_worker[4] if answer.event is Event.SENT]
    assert sorted(value[:2] for value in sent) == [(thread, number) for thread in range(4) for number in range(20)]
    state = by_worker[5][-1].value
    assert (state["threads"], state["path"], state["argv"]) == (3, sys.path, sys.argv)


def test_a_killed_worker_and_those_that_are_asked_to_stop():
    with LocalWorkers() as workers:
        for name in ("killed", "asked", "deaf"):
            workers.start(name, functions.deaf if name != "asked" else functions.until_cancelled)
        pids = {answer.worker: answer.value for answer in answers(workers, 3)}
        os.kill(pids[0], signal.SIGKILL)
        assert answers(workers, 1) == [Answer(0, Event.DIED, "exit code -9")]
        workers.cancel()
        assert answers(workers, 1) == [Answer(1, Event.RETURNED, "stopped")]
        assert workers.running == {2}
    assert not workers.running and ended(pids[2])


def test_on_closing_workers_may_have_time_to_stop():
    workers = LocalWorkers()
    workers.start("asked", functions.until_cancelled)
    workers.start("deaf", functions.deaf)
    pids = [answer.value for answer in answers(workers, 2) if answer.value != "waiting"]
    workers.close(grace=0.5)
    assert not workers.running and all(ended(pid) for pid in pids)


def test_a_worker_that_hangs_at_the_end_is_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("brimful.engine.distributed.workers._END", 0.5)
    with LocalWorkers() as workers:
        workers.start("lingering", functions.lingering)
        (answer,) = answers(workers)
    assert answer.event is Event.RETURNED and ended(answer.value)


@pytest.mark.parametrize("target", [lambda channel: None, functions.echo])
def test_what_cannot_be_sent_is_refused_before_anything_starts(target: Callable[..., Any]):
    with LocalWorkers() as workers, pytest.raises(InputError, match="top level of a module"):
        workers.start("never", target, lambda: None)
    assert not workers.names


SCRIPT = """
import os, sys
from brimful.engine.distributed.workers import LocalWorkers
sys.path.insert(0, {root!r})
from tests.engine.distributed import worker_functions as functions

def here(channel):
    return "in the script"

print("imported", os.getpid())
def main(target, *arguments):
    with LocalWorkers() as workers:
        workers.start("one", target, *arguments)
        while workers.running:
            if (answer := workers.receive(1.0)) is not None:
                print(answer.event.name, answer.value, flush=True)
"""


@pytest.mark.parametrize(
    ("ending", "imports", "output"),
    [
        pytest.param("main(functions.fail, ValueError('wrong'))", 1, "RAISED wrong", marks=pytest.mark.soak),
        pytest.param("if __name__ == '__main__': main(here)", 2, "RETURNED in the script", marks=pytest.mark.soak),
        ("main(here)", 2, "RAISED a worker could not start: WorkerError: this script starts worker processes"),
    ],
)
def test_a_script_is_imported_only_for_what_is_defined_in_it(tmp_path: Path, ending: str, imports: int, output: str):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(root=str(ROOT)) + ending)
    run = completed(run_path, str(path), timeout=PATIENCE)
    assert run.stdout.count("imported") == imports and output in run.stdout


def test_workers_end_with_their_supervisor():
    with LocalWorkers() as workers:
        workers.start("supervisor", functions.supervise)
        supervisor, worker = (answer.value for answer in answers(workers, 2))
        os.kill(supervisor, signal.SIGKILL)
        assert ended(worker)
