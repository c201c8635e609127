"""Maps that are killed at random moments, in one process or with workers: resumed, they lose and double nothing."""

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from brimful.core.runs.events import BatchDone, Finished, read_log
from brimful.core.runs.rundir import LOG, MANIFEST, inspect

from ...helpers.stopping import Orders, wait_for
from . import map_runner
from .mapping import rows, run, same, shards_of, stamped

COUNT, BATCH, IN_FLIGHT = 600, 8, 6  # in flight: computing, landing, two waiting for the writer, one being written
TWO = ["cpu", "cpu"]


@pytest.fixture(scope="module")
def maps() -> Iterator[Orders]:
    with Orders("tests.engine.map.map_runner") as made:
        yield made


@pytest.fixture(scope="module")
def maps_with_workers() -> Iterator[Orders]:
    with Orders("tests.engine.map.map_runner", "workers") as made:
        yield made


def order(folder: Path, function: str, **more: Any) -> dict[str, Any]:
    files = {"out": str(folder / "run"), "log": str(folder / "calls"), "workers": str(folder / "workers")}
    return {"function": function, "count": COUNT, "seconds": 0.0008, **files, **more}


def computed(folder: Path) -> list[int]:
    """The sizes of the batches that were computed so far."""
    calls = folder / "calls"
    return [int(line) for line in calls.read_text().splitlines()] if calls.exists() else []


def spans(folder: Path) -> list[tuple[int, ...]]:
    """The positions that the shards of a run have in their names."""
    return [tuple(map(int, path.stem.split("-")[1:])) for path in shards_of(folder / "run")]


Stop = Callable[[Orders, dict[str, Any], random.Random], int]
"""Starts a map, stops it at a random moment, and says how many processes it killed."""


def stop_parent(maps: Orders, asked: dict[str, Any], rng: random.Random) -> int:
    return maps.kill(asked, rng.uniform(0, 0.6)) == "killed"


def stop_workers_and_parent(maps: Orders, asked: dict[str, Any], rng: random.Random) -> int:
    """Kills none, one or all of the workers, and a moment later the parent, unless that ends by itself."""
    pid = maps.start(**asked)
    time.sleep(rng.uniform(0, 0.5))
    workers = running(asked)
    victims = rng.sample(workers, rng.randint(0, len(workers)))
    for worker in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    if victims and rng.random() < 0.5:  # the others take over; where there is none, it says so
        said = maps.say()
        assert said == f"finished {COUNT}" or (said.startswith("WorkerError: ") and len(victims) == len(workers)), said
        assert maps.say() == "ended"
        return len(victims)
    time.sleep(rng.uniform(0, 0.2))
    stopped = maps.stop(pid)
    assert stopped in ("killed", f"finished {COUNT}") or stopped.startswith("WorkerError: "), stopped
    wait_for(lambda: not running(asked))  # none outlives its parent
    return len(victims) + (stopped == "killed") * max(1, len(workers))


def running(asked: dict[str, Any]) -> list[int]:
    """The pids of the workers that a map has started, and that have not ended."""
    started = Path(asked["workers"])
    pids = started.read_text().split("\n")[:-1] if started.exists() else []
    return [int(pid) for pid in pids if psutil.pid_exists(int(pid))]


def killed_and_resumed(
    maps: Orders, stop: Stop, folder: Path, seed: int, asked: dict[str, Any], expected: torch.Tensor
) -> None:
    """Kills a map at a few random moments, finishes it, and compares all with an uninterrupted run."""
    rng = random.Random(seed)
    kills = sum(stop(maps, asked, rng) for _ in range(rng.randint(1, 3)))
    finished = spans(folder)
    if (folder / "run" / MANIFEST).exists():
        assert inspect(folder / "run").done <= max((stop for _, stop in finished), default=0)
    before = len(computed(folder))
    result: Any = map_runner.work({**asked, "seconds": 0})
    assert same(result.values, expected)
    assert result.status.tolist() == [0] * COUNT
    covered = spans(folder)
    assert [start for start, _ in covered] == [0, *(stop for _, stop in covered)][:-1]
    sizes = computed(folder)
    assert sum(sizes) <= COUNT + kills * IN_FLIGHT * max(sizes)
    # Small shards and the one that they were collected into may both be there, when the kill falls between the two.
    kept = {position for start, stop in finished for position in range(start, stop)}
    assert sum(sizes[before:]) == COUNT - len(kept)


def rounds(maps: Orders, stop: Stop, folder: Path, seeds: range, function: str, more: dict[str, Any]) -> None:
    expected = {"stamped": run(stamped, rows(COUNT), batch_size=BATCH).values, "double": rows(COUNT) * 2}[function]
    for seed in seeds:
        part = folder / str(seed)
        part.mkdir()
        killed_and_resumed(maps, stop, part, seed, order(part, function, **more), expected)
        shutil.rmtree(part)


MAPS = pytest.mark.parametrize(
    ("function", "more"),
    [
        ("stamped", {"batch_size": BATCH}),
        ("double", {"batch_size": "auto"}),
        ("double", {"batch_size": "auto", "stream": True, "fingerprint": "rows"}),
    ],
    ids=["fixed", "auto", "stream"],
)


@MAPS
def test_killed_at_random_moments_and_resumed(maps: Orders, tmp_path: Path, function: str, more: dict[str, Any]):
    rounds(maps, stop_parent, tmp_path, range(2), function, more)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 200, 20))
@MAPS
def test_killed_two_hundred_times_and_resumed(
    maps: Orders, tmp_path: Path, first: int, function: str, more: dict[str, Any]
):
    rounds(maps, stop_parent, tmp_path, range(first, first + 20), function, more)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 60, 10))
@MAPS
def test_with_workers_killed_many_times_and_resumed(
    maps_with_workers: Orders, tmp_path: Path, first: int, function: str, more: dict[str, Any]
):
    seeds = range(first, first + 10)
    rounds(maps_with_workers, stop_workers_and_parent, tmp_path, seeds, function, {**more, "device": TWO})


def test_an_interrupt_keeps_what_was_finished_and_says_how_to_go_on(maps: Orders, tmp_path: Path):
    asked = order(tmp_path, "stamped", batch_size=BATCH)
    pid = maps.start(**asked)
    wait_for(lambda: len(shards_of(tmp_path / "run")) > 5)
    said = maps.stop(pid, signal.SIGINT)
    assert said.startswith("KeyboardInterrupt: interrupted after ")
    assert f"run the same command again to go on from {tmp_path / 'run'}" in said
    kept = sum(event.items for event in read_log(tmp_path / "run" / LOG) if isinstance(event, BatchDone))
    assert f"after {kept} items" in said
    last = list(read_log(tmp_path / "run" / LOG))[-1]
    assert isinstance(last, Finished)
    assert (last.state, last.done) == ("interrupted", kept)
    before = sum(computed(tmp_path))
    assert before - kept <= 2 * BATCH
    result: Any = map_runner.work({**asked, "seconds": 0})
    assert same(result.values, run(stamped, rows(COUNT), batch_size=BATCH).values)
    # A batch may be on disk and not counted yet when the interrupt falls between the two.
    assert COUNT - kept - BATCH <= sum(computed(tmp_path)) - before <= COUNT - kept
