"""What a map promises whatever the function does: never stuck, the same answer, nothing lost."""

import asyncio
import random
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import brimful
from brimful import ConfigError, InputError, Status, StorageError
from brimful.core.base import directories
from brimful.core.runs import fingerprint
from brimful.core.runs.events import BatchDone, Finished

from .mapping import EventLog, Recorded, double, rows, run, same, stamped

# Never over, never stuck.


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't allocate memory"),
        torch.OutOfMemoryError("CUDA out of memory"),
    ],
    ids=["python", "host", "device"],
)
def test_one_item_that_runs_out_of_memory_does_not_make_later_batches_small(error: Exception):
    def function(x: torch.Tensor) -> torch.Tensor:
        if (x[:, 0] == 500).any():
            raise error
        return double(x)

    recorded = Recorded(function)
    result = run(recorded, rows(20_000), batch_size=1000)
    assert np.flatnonzero(result.status).tolist() == [500] and result.status[500] == Status.TOO_BIG
    assert "does not fit the memory budget" in result.messages[500]
    assert len(recorded.sizes) < 100 and recorded.sizes[-1] >= 500


def test_a_heavy_item_has_the_same_answer_whatever_the_cost_cache_holds():
    def function(batch: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.zeros(int(n) * 25_000).sum() + n for n in batch])

    weights = torch.tensor([1.0] * 60 + [400.0] + [1.0] * 60)
    first, second = (run(function, weights, weight=weights, budget="15MB") for _ in range(2))
    assert first.status.tolist() == second.status.tolist()
    assert np.flatnonzero(first.status == Status.TOO_BIG).tolist() == [60]
    assert same(first.values, second.values)
    assert list(directories.cache_directory().iterdir())


def test_a_heavy_item_that_fits_is_run_though_the_light_ones_have_a_fixed_part():
    def function(batch: torch.Tensor) -> torch.Tensor:
        torch.zeros(50_000)
        return torch.stack([torch.zeros(int(n) * 1000).sum() + n for n in batch])

    weights = torch.tensor([1.0, 3.0, 10.0, 35.0, 100.0, 400.0])
    assert run(function, weights, weight=weights, budget="15MB").ok.all()


def test_a_single_item_that_fails_works_and_fails_again_ends():
    calls = 0

    def function(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls % 2:
            raise ValueError("odd")
        return double(x)

    result = run(function, rows(9), batch_size=1)
    assert set(result.status.tolist()) <= {Status.OK, Status.FAILED} and calls < 50


@pytest.mark.parametrize("size", [2, 7, 32])
def test_a_function_that_fails_at_random_ends(size: int):
    rng = np.random.default_rng(size)

    def function(x: torch.Tensor) -> torch.Tensor:
        if rng.random() < 0.4:
            raise ValueError("now and then")
        return double(x)

    recorded = Recorded(function)
    run(recorded, rows(64), batch_size=size, fallback=double)
    assert len(recorded.sizes) < 64 * 30


def test_a_function_that_fails_often_is_called_about_once_per_item():
    def function(x: torch.Tensor) -> torch.Tensor:
        if (x[:, 0].round().int() % 2 == 1).any():
            raise ValueError("odd")
        return double(x)

    recorded = Recorded(function)
    result = run(recorded, rows(4000))
    assert result.status.tolist() == [0, Status.FAILED] * 2000
    assert len(recorded.sizes) < 1.2 * 4000


def test_over_the_budget_is_a_warning_that_says_by_how_much():
    log, held = EventLog(), []

    def leaking(x: torch.Tensor) -> torch.Tensor:
        held.append(torch.ones(2_000_000))
        return double(x)

    result = run(leaking, rows(400), batch_size=10, budget="100MB", progress=log)
    assert result.observed > 300e6
    assert any("over the budget of 100 MB" in warning and "the peak was" in warning for warning in log.warnings)


# The same answer.


def noisy(x: torch.Tensor) -> torch.Tensor:
    """Rows that depend on the global generators of torch, numpy and Python."""
    if (x[:, 0] == 13).any():
        raise ValueError("thirteen")
    return x + torch.rand(len(x), 1) + torch.from_numpy(np.random.rand(len(x), 1)).float() + random.random()


def test_random_numbers_do_not_depend_on_neighbors_restarts_or_what_was_drawn_before(tmp_path: Path):
    items = rows(60)
    items[:, 0] = torch.arange(60)
    good = torch.where(items == 13, 99, items)
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    legacy: Any = np.random.get_state
    before = torch.get_rng_state(), legacy()[1].tolist(), random.getstate()
    whole = run(noisy, good, batch_size=10).values
    assert torch.equal(before[0], torch.get_rng_state()) and before[2] == random.getstate()
    assert before[1] == legacy()[1].tolist()
    torch.rand(3)
    failed = run(noisy, items, batch_size=10)
    others = [item for item in range(60) if item != 13]
    assert same(failed.values[others] - items[others], whole[others] - good[others])
    rest = whole.reshape(6, 10, 3) - good.reshape(6, 10, 3)
    assert len({float(batch[0, 0]) for batch in rest}) == 6  # no batch draws what another drew
    cancel = threading.Event()

    def stop(event: Any) -> None:
        if isinstance(event, BatchDone) and event.done >= 20:
            cancel.set()

    with pytest.raises(brimful.CancelledError):
        run(noisy, good, batch_size=10, out=tmp_path / "run", progress=stop, cancel=cancel)
    assert same(run(noisy, good, batch_size=10, out=tmp_path / "run").values, whole)
    assert not same(run(noisy, good, batch_size=10, seed=1).values, whole)


def test_a_wrong_seed_is_refused():
    for seed in (-1, 1.5, True, "7"):
        with pytest.raises(ConfigError, match="seed is"):
            run(double, rows(3), seed=seed)


class Model(torch.nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def test_a_changed_function_does_not_go_on_with_the_old_run(tmp_path: Path):
    run(Model(2.0), rows(4), out=tmp_path / "run")
    with pytest.raises(brimful.ChangedError, match="fn was"):
        run(Model(3.0), rows(4), out=tmp_path / "run")
    assert same(run(Model(2.0), rows(4), out=tmp_path / "run").values, rows(4) * 2)


def test_what_a_function_captures_is_hashed_once_per_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hashed, digest, weights = list[Any](), fingerprint.digest, torch.ones(1000)
    monkeypatch.setattr(fingerprint, "digest", lambda value: (hashed.append(value), digest(value))[1])

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * weights[0]

    for calls in (1, 2):  # the second resumes
        run(function, rows(20), batch_size=10, out=tmp_path / "run")
        assert sum(value is weights for value in hashed) == calls
    run(function, rows(20), batch_size=10)
    assert sum(value is weights for value in hashed) == 2  # nothing to compare it with


def test_a_function_without_a_fingerprint_needs_one_given(tmp_path: Path):
    with Path("/dev/null").open() as file:

        def function(x: torch.Tensor) -> torch.Tensor:
            return double(x) if file else x

        assert run(function, rows(4)).ok.all()
        with pytest.raises(InputError, match=r"fn\.file is a TextIOWrapper.*fingerprint="):
            run(function, rows(4), out=tmp_path / "run")
        assert run(function, rows(4), out=tmp_path / "run", fingerprint="mine").ok.all()
        with pytest.raises(brimful.ChangedError):
            run(function, rows(4), out=tmp_path / "run", fingerprint="other")


@pytest.mark.parametrize("changed", [torch.Tensor.double, lambda x: x[:, :2], lambda x: (x, x)])
@pytest.mark.parametrize("kept", [False, True])
def test_a_result_of_another_form_ends_the_run(changed: Any, kept: bool, tmp_path: Path):
    def function(x: torch.Tensor) -> Any:
        return changed(x) if x[0, 0] >= 10 else x

    with pytest.raises(InputError, match="must be the same in all"):
        run(function, rows(40), batch_size=10, out=tmp_path / "run" if kept else None)


def test_the_function_runs_without_autograd_by_default():
    layer = torch.nn.Linear(3, 3)
    seen = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append(layer(x).requires_grad)
        with torch.enable_grad():
            (slope,) = torch.autograd.grad((layer(x.requires_grad_()) ** 2).sum(), x)
        return slope

    values = run(function, rows(4)).values
    assert not any(seen) and not values.is_inference()
    run(function, rows(4), grad=True)
    assert seen[-1]

    def needs_grad(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad((x.requires_grad_() ** 2).sum(), x)[0]

    with pytest.raises(RuntimeError, match="pass grad=True"):
        run(needs_grad, rows(8))
    assert same(run(needs_grad, rows(8), grad=True).values, rows(8) * 2)


# Nothing lost.


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error",
    [Unspeakable(), SystemExit(3), asyncio.CancelledError(), ValueError("\udc80 is no text"), ValueError("x" * 10**6)],
    ids=["unspeakable", "exit", "cancelled", "surrogate", "long"],
)
def test_an_odd_exception_flags_its_item(error: BaseException, tmp_path: Path):
    def function(x: torch.Tensor) -> torch.Tensor:
        if (x[:, 0] == 5).any():
            raise error
        return stamped(x)

    result = run(function, rows(24), batch_size=8, out=tmp_path / "run", fingerprint="rows")
    assert np.flatnonzero(result.status).tolist() == [5]
    assert result.messages[5].startswith(type(error).__name__) and len(result.messages[5]) < 1100
    others = [item for item in range(24) if item != 5]
    assert same(result.values[others], run(stamped, rows(24), batch_size=8).values[others])


def test_a_nested_map_that_is_cancelled_ends_the_run_resumable(tmp_path: Path):
    def function(x: torch.Tensor) -> torch.Tensor:
        if (x[:, 0] == 5).any():
            raise brimful.CancelledError("inner")
        return x

    log = EventLog()
    with pytest.raises(brimful.CancelledError, match="run the same command again"):
        run(function, rows(24), batch_size=4, out=tmp_path / "run", progress=log)
    assert log.of(Finished)[-1].state == "interrupted"


@pytest.mark.parametrize("left", ["nothing", "later shards"])
def test_a_run_directory_that_is_deleted_in_mid_run_is_no_finished_run(left: str, tmp_path: Path):
    def function(x: torch.Tensor) -> torch.Tensor:
        if x[0, 0] == 20:
            shutil.rmtree(tmp_path / "run")
            if left == "later shards":
                (tmp_path / "run").mkdir()
        return x

    log = EventLog()
    with pytest.raises(StorageError):
        run(function, rows(40), batch_size=5, out=tmp_path / "run", progress=log)
    assert log.of(Finished)[-1].state == "failed"


def test_an_iterator_without_a_fingerprint_says_at_the_start_that_it_cannot_be_resumed(tmp_path: Path):
    for number, (options, expected) in enumerate([({}, 1), ({"fingerprint": "rows"}, 0)]):
        log = EventLog()
        run(double, iter(rows(4)), out=tmp_path / str(number), progress=log, **options)
        assert sum("cannot be resumed" in warning for warning in log.warnings) == expected
    log = EventLog()
    run(double, iter(rows(4)), progress=log)
    assert not log.warnings
