"""Runs of the batched executor that are killed, lose a worker, or have no compiler: the same bits in the end."""

import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from brimful import programs
from brimful.core.runs.events import BatchDone, Event, Warned

from ...helpers import forking
from ...helpers.stopping import Orders, wait_for
from ...helpers.worker_processes import worker_pids
from ..helpers.run_runner import work
from ..helpers.small import TEXT, small, task
from ..test_run import same


@pytest.fixture(scope="module")
def runs() -> Iterator[Orders]:
    with Orders("tests.programs.helpers.run_runner") as made:
        yield made


def kill_and_resume(runs: Orders, out: Path, shards: int, first: str, then: str) -> None:
    """A run by one executor that is killed after some shards, and resumed by another."""
    pid = runs.start(out=str(out), executor=first, batch_size=7)
    wait_for(lambda: len(list(out.glob("shard-*.parquet"))) >= shards)
    assert runs.stop(pid) == "killed"
    kept = {path.name: path.read_bytes() for path in out.glob("shard-*.parquet")}
    resumed = work({"out": str(out), "executor": then})
    assert all((out / name).read_bytes() == content for name, content in kept.items() if (out / name).exists())
    assert same(resumed, work({"executor": "sequential"})) and same(programs.load_result(out), resumed)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(30))
def test_killed_at_any_moment(runs: Orders, tmp_path: Path, number: int):
    rng, executors = random.Random(number), ("batched", "sequential", "auto")
    kill_and_resume(runs, tmp_path / "run", rng.randint(1, 30), rng.choice(executors), rng.choice(executors))


@pytest.mark.soak
def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path):
    many, loaded = [task(f"t{number}", number) for number in range(400)], programs.loads(TEXT)
    killed, warnings = threading.Event(), list[str]()

    def kill(event: Event) -> None:
        if isinstance(event, Warned):
            warnings.append(event.message)
        if isinstance(event, BatchDone) and not killed.is_set():
            os.kill(pids[-1], signal.SIGKILL)
            killed.set()

    options = {"executor": "batched", "device": "cpu", "workers": 2, "batch_size": 20, "out": tmp_path / "run"}
    with worker_pids() as pids:
        result = programs.run(loaded, many, progress=kill, **options)
    assert killed.is_set() and any("died" in message for message in warnings)
    assert same(result, programs.run(loaded, many, executor="sequential", device="cpu", progress=False))


WITHOUT = """
import sys, warnings
{broken}
warnings.simplefilter("always")
from tests.programs.helpers.small import small
from tests.programs.test_run import same
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    batched = small(executor="batched", device="cpu")
assert same(batched, small(executor="sequential"))
print([str(one.message) for one in seen if "numba" in str(one.message)])
"""
MISSING = "sys.modules['numba'] = None"
BROKEN = """
import numba
def njit(*given, **options):
    def refuse(function):
        def call(*args):
            raise RuntimeError("no compiler here")
        return call
    return refuse
numba.njit = njit
"""


REFUSES = """
from numba.core import dispatcher
def refuse(*given):
    raise RuntimeError("no code for this processor")
dispatcher.Dispatcher.compile = refuse
"""


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        pytest.param(MISSING, "numba is not installed", id="missing"),
        pytest.param(REFUSES, "numba cannot compile here: no code for this processor", id="refuses"),
        pytest.param(BROKEN, "numba cannot compile here: no compiler here", id="broken", marks=pytest.mark.soak),
    ],
)
def test_without_numba_plain_torch_gives_the_same_bits(broken: str, said: str):
    done = forking.completed(forking.run_text, WITHOUT.format(broken=broken))
    assert done.returncode == 0, done.stderr
    assert said in done.stdout and "plain torch" in done.stdout


@pytest.mark.gpu
def test_a_gpu_and_its_budget():
    result = small(executor="batched", device="cuda", budget="1GB")
    assert same(result, small(executor="sequential")) and result.observed <= 1_000_000_000
