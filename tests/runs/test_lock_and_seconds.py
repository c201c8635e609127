"""One writer and no more, also where the function forks; and what a run is said to have done and taken."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import brimful
from brimful import LockedError
from brimful.core.runs.events import BatchDone, Finished, Started
from brimful.core.runs.log_state import read_state
from brimful.core.runs.rundir import LOG, RunDir, inspect

from ..engine.map.mapping import double, rows, run
from ..helpers.forking import completed, run_text
from .small_runs import made_train

RUN: dict[str, Any] = {"work": "made", "config": {}, "input": None}


def test_a_child_that_the_function_forked_does_not_keep_the_lock(tmp_path: Path):
    noted = tmp_path / "child"

    def forking(x: torch.Tensor) -> torch.Tensor:
        if not noted.exists():
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            noted.write_text(str(child))
        return x

    run(forking, rows(8), out=tmp_path / "run")
    child = int(noted.read_text())
    try:
        assert inspect(tmp_path / "run").state == "finished"
        assert run(forking, rows(8), out=tmp_path / "run").done == 0
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


HOLDER = """
import subprocess, sys
from brimful.core.runs.rundir import RunDir
run = RunDir.open(sys.argv[1], work="made", config={}, input=None)
child = subprocess.Popen(["sleep", "60"], pass_fds=[run._lock], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
"""


def test_a_lock_whose_owner_has_ended_is_told_of(tmp_path: Path):
    child = int(completed(run_text, HOLDER, str(tmp_path)).stdout)
    try:
        with pytest.raises(LockedError, match=rf"has ended, and what it started still holds it \(process {child}\)"):
            RunDir.open(tmp_path, **RUN)
    finally:
        os.kill(child, signal.SIGKILL)


# Seconds, and what is done.


def test_seconds_are_of_all_parts_also_of_one_that_was_killed(tmp_path: Path):
    with RunDir.open(tmp_path, **RUN) as first:
        first.log(Started(time=100.0, work="made", items=50, done=0, budget=1))
        first.log(BatchDone(time=107.0, items=20, bad=1, done=20, seconds=1.0, peak=1, budget=1, flagged=1))
    assert read_state(tmp_path / LOG).seconds == 7.0  # killed
    with RunDir.open(tmp_path, **RUN) as second:
        assert second.before.seconds == 7.0
        second.log(Started(time=200.0, work="made", items=50, done=20, budget=1, seconds=7.0))
        second.log(Finished(time=203.0, state="interrupted", done=30, bad=1, seconds=10.0))
    told = inspect(tmp_path)
    assert (told.state, told.done, told.items, told.seconds) == ("interrupted", 30, 50, 10.0)


def test_what_a_killed_run_had_not_written_is_not_counted(tmp_path: Path):
    with RunDir.open(tmp_path, **RUN) as first:
        first.log(Started(time=100.0, work="made", items=3000, done=0, budget=1))
        first.log(BatchDone(time=107.0, items=1, bad=0, done=2687, seconds=1.0, peak=1, budget=1, kept=537))
        assert inspect(tmp_path).done == 2687  # while it runs
    assert inspect(tmp_path).done == 537


def test_no_more_are_done_than_there_are(tmp_path: Path):
    with RunDir.open(tmp_path, **RUN) as first:
        first.log(Started(work="made", items=10, done=0, budget=1))
        first.log(Finished(state="finished", done=99, bad=0, seconds=-5.0))
    assert (inspect(tmp_path).done, inspect(tmp_path).seconds) == (10, 0.0)


def test_a_long_log_is_read_to_where_the_part_began(tmp_path: Path):
    with RunDir.open(tmp_path, **RUN) as first:
        first.log(Started(time=1.0, work="made", items=10, done=4, budget=1))
        for second in range(2, 2000):
            first.log.write(
                {"event": "sampled", "time": second, "used": 1, "process": 1, "utilisation": None, "watts": 1}
            )
    assert (inspect(tmp_path).done, inspect(tmp_path).seconds) == (4, 1998.0)


def test_a_map_that_was_stopped_and_resumed_has_the_seconds_of_both(tmp_path: Path):
    def stopping(x: torch.Tensor) -> torch.Tensor:
        if (x[:, 0] == 20).any() and not (tmp_path / "go").exists():
            raise KeyboardInterrupt
        return double(x)

    options: dict[str, Any] = {"batch_size": 4, "out": tmp_path / "run", "fingerprint": "rows"}
    with pytest.raises(KeyboardInterrupt):
        run(stopping, rows(40), **options)
    first = inspect(tmp_path / "run")
    (tmp_path / "go").touch()
    result = run(stopping, rows(40), **options)
    told = inspect(tmp_path / "run")
    assert result.seconds > first.seconds > 0
    assert (told.state, told.seconds, told.done) == ("finished", result.seconds, 40)
    again = run(stopping, rows(40), **options)
    assert again.seconds == result.seconds == brimful.open(tmp_path / "run").seconds


def test_training_that_is_made_longer_and_shorter_counts_what_there_is(tmp_path: Path):
    first = made_train(tmp_path / "run")
    longer = made_train(tmp_path / "run", epochs=4)
    assert longer.seconds > first.seconds
    shorter = made_train(tmp_path / "run", epochs=1)
    told = inspect(tmp_path / "run")
    assert shorter.seconds == longer.seconds == told.seconds
    assert told.items is not None and told.done == told.items == 4 * 24
