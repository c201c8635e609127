"""Ranks that a launcher such as torchrun started find each other, write once, and end together."""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from brimful import LockedError, WorkerError
from brimful.core.runs.rundir import RunDir, inspect
from brimful.engine.distributed.workers import LocalWorkers

from ...helpers.nodes import free_port
from . import training
from .training import fit, weights

pytestmark = pytest.mark.usefixtures("one_thread")


def launch(folder: Path, happens: str = "", ranks: int = 2, **options: Any) -> list[Any]:
    """What each rank returns or raises, by rank."""
    port, ended = free_port(), {}
    with LocalWorkers() as workers:
        for rank in range(ranks):
            variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
            variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **options.pop("variables", {})}
            workers.start(f"rank {rank}", _fit, variables, folder, happens, options)
        while workers.running:
            answer = workers.receive(120)
            assert answer is not None, f"ranks {sorted(ended)} have ended, and the others hang"
            ended[answer.worker] = answer.value
    return [ended[rank] for rank in range(ranks)]


def _fit(channel: Any, variables: dict[str, Any], folder: Path, happens: str, options: dict[str, Any]) -> Any:
    return training.fit_launched(channel, variables, folder, happens, **options)


def alone() -> torch.Tensor:
    return weights(fit(loss=training.summed, batch_size=7).model)


def test_they_find_each_other_and_one_writes(tmp_path: Path):
    first, second = launch(tmp_path, budget="1GB")
    assert first["out"] and not second["out"]
    assert first["budget"] == 10**9 // 2  # ranks of one machine share it
    torch.testing.assert_close(first["weights"], alone())
    assert torch.equal(first["weights"], second["weights"])


def test_a_mistake_on_one_is_read_on_the_others(tmp_path: Path):
    first, second = launch(tmp_path, "fails")
    assert isinstance(second, ValueError)
    assert isinstance(first, WorkerError) and "rank 1 on" in str(first) and "a mistake on one node" in str(first)
    assert inspect(tmp_path / "run").state == "failed"


def test_a_directory_that_the_first_cannot_open_ends_all(tmp_path: Path):
    other = {"work": "another", "config": {}, "input": None}
    with RunDir.open(tmp_path / "run", **other):
        first, second = launch(tmp_path)
    assert isinstance(first, LockedError)
    assert isinstance(second, WorkerError) and "LockedError" in str(second) and "is being written by" in str(second)


def test_sigterm_on_one_saves_and_ends_all_and_one_rank_goes_on(tmp_path: Path):
    first, second = launch(tmp_path, "sigterm")
    assert isinstance(first, KeyboardInterrupt) and "run the same command again to go on" in str(first)
    assert isinstance(second, KeyboardInterrupt) and "the first rank says what was kept" in str(second)
    run = tmp_path / "run"
    assert inspect(run).state == "interrupted" and (run / "checkpoints" / "last").exists()
    resumed = fit(loss=training.Happening(), batch_size=7, out=run, fingerprint="launched")
    torch.testing.assert_close(weights(resumed.model), alone())


def test_a_restart_goes_on_and_waits_for_the_lock(tmp_path: Path):
    """After a restart `resume=False` does not refuse what the ranks before it wrote."""
    launch(tmp_path, "sigterm", resume=False)
    held = RunDir.open(tmp_path / "run", **_wanted(tmp_path))
    threading.Timer(0.5, held.close).start()
    (only,) = launch(tmp_path, ranks=1, resume=False, variables={"TORCHELASTIC_RESTART_COUNT": 1})
    torch.testing.assert_close(only["weights"], alone())


def _wanted(folder: Path) -> dict[str, Any]:
    """What the run there is, as `RunDir.open` is asked for it."""
    from brimful.core.runs.rundir import read_manifest

    manifest = read_manifest(folder / "run")
    return {name: manifest[name] for name in ("work", "config", "input")}
