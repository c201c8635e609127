"""Training: every strategy gives the same numbers, faults are reported, runs are resumed and cancelled."""

import functools
import json
import math
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from brimful import BrimfulWarning, BudgetError, ConfigError, InputError, WorkerError, wpo
from brimful.core.base.errors import CancelledError
from brimful.core.runs.events import EpochDone, Event, Planned
from brimful.wpo.model.fold_term import TriangularMixtureTerm

from ...helpers.paths import command, environment
from ..helpers.oracle import assert_near, gradients, make_model, make_samples
from ..helpers.training import KilledModel, fit, model, small, weights

pytestmark = pytest.mark.usefixtures("one_thread")


def test_frames_and_tables_train_like_arrays():
    rows = make_samples(60, 2).float().numpy()
    columns = {"a": rows[:, 0], "b": rows[:, 1]}
    frame = pd.DataFrame(columns)
    forms = [frame, frame.astype(">f4"), pl.DataFrame(columns), pl.LazyFrame(columns), pa.table(columns)]
    expected, splits = weights(_quick(rows)), wpo.dataset(rows, 10)
    for form in forms:
        assert all(map(torch.equal, weights(_quick(form)), expected)), type(form)
        assert torch.equal(wpo.dataset(form, 10).train_Nd, splits.train_Nd)
    for refused in (frame.assign(b="x"), pl.DataFrame({"a": rows[:, 0], "b": ["x"] * 60})):
        for call in (_quick, wpo.dataset, wpo.ScoreModel):
            with pytest.raises(InputError, match=r"cannot be read as numbers: column 'b' holds no numbers"):
                call(refused)
    with pytest.raises(InputError, match="several columns are named 'a'; rename them"):
        _quick(pd.DataFrame(rows, columns=pd.Index(["a", "a"])))
    with pytest.raises(InputError, match="samples have 1 columns and the centers 2"):
        _quick(frame[["a"]])


def _quick(samples: Any) -> wpo.WPOResult:
    torch.manual_seed(0)
    centers = torch.randn(8, 2, generator=torch.Generator().manual_seed(1))
    return wpo.train(wpo.ScoreModel(centers), samples, steps=2, batch_size=20, device="cpu", progress=False)


SPLITS: list[dict[str, Any]] = [
    {"strategy": "gradient_accumulation", "accumulation_steps": 3, "chunk_size": 4},
    {"strategy": "chunked", "chunk_size": 5},
    {"strategy": "auto", "accumulation_steps": 5},
]


@pytest.mark.parametrize(
    ("factor", "splits"),
    [
        ("triangle", SPLITS),
        ("lowrank", SPLITS[:1]),
        pytest.param("lowrank", SPLITS[1:], marks=pytest.mark.soak),
    ],
    ids=["triangle", "lowrank", "lowrank, others"],
)
def test_every_strategy_trains_alike(factor: str, splits: list[dict[str, Any]]):
    data = small()
    whole = fit(data, model(data, factor=factor, rank=1), strategy="single", calibrate=False)
    assert whole.plan.strategy == "single"
    for options in splits:
        result = fit(data, model(data, factor=factor, rank=1), calibrate=False, **options)
        assert_near(weights(result), weights(whole), 1e-9)
        np.testing.assert_allclose(result.curve, whole.curve, rtol=1e-9)
        assert result.scores.log_likelihood == pytest.approx(whole.scores.log_likelihood, rel=1e-9)


@pytest.mark.soak
def test_ranks_that_split_the_centers_have_the_whole_gradient():
    """For 1 to 3 ranks, in chunks and for both factors: losses, score, density and every gradient."""
    done = subprocess.run(
        command("tests.wpo.helpers.ranks_runner"),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=environment(OMP_NUM_THREADS="1"),
    )
    assert done.returncode == 0, done.stderr
    by_rank = json.loads(done.stdout.splitlines()[-1])
    assert [len(errors) for errors in by_rank] == [6, 4, 2]
    assert max(error for errors in by_rank for row in errors.values() for error in row.values()) < 1e-9


def test_ranks_that_split_the_centers_train_as_one():
    data = small()
    alone = fit(data, calibrate=False)
    result = fit(data, ranks=2, strategy="model_parallel", accumulation_steps=2, chunk_size=2, calibrate=False)
    assert result.plan.strategy == "model_parallel"
    assert_near(weights(result), weights(alone), 1e-9)
    np.testing.assert_allclose(result.curve, alone.curve, rtol=1e-9)
    for name in ("valid_loss", "log_likelihood"):
        assert result.history[-1][name] == pytest.approx(alone.history[-1][name], rel=1e-9)
    assert not result.model.sharded


@pytest.mark.soak
def test_a_rank_that_dies_is_named():
    data = small()
    killed = KilledModel(data.centers_Kd, hidden=4, depth=1)
    with pytest.raises(WorkerError, match=r"rank 1 died \(exit code -9\)"):
        fit(data, killed, ranks=2, strategy="model_parallel", steps=50)


def test_a_chunk_that_runs_out_of_memory_is_computed_again(monkeypatch: pytest.MonkeyPatch):
    trained, x = make_model(9, 3), make_samples(6, 3)
    wanted = gradients(trained, trained.loss(x, strategy="single"))
    whole, largest = TriangularMixtureTerm._backward, 2

    def limited(term: TriangularMixtureTerm, grad_kP: torch.Tensor, *rest: Any) -> Any:
        if len(grad_kP) > largest:
            raise torch.OutOfMemoryError("a simulated end of memory")
        return whole(term, grad_kP, *rest)

    monkeypatch.setattr(TriangularMixtureTerm, "_backward", limited)
    with pytest.warns(BrimfulWarning, match="out of memory on 9 components"):
        found = gradients(trained, trained.loss(x, strategy="chunked", chunk_size=9))
    assert_near(found, wanted, 1e-9)


def test_it_learns():
    data = wpo.dataset("2spirals", 150, samples=800)
    untrained = model(data, hidden=32)
    with torch.no_grad():
        before = float(untrained.log_prob(data.held_out_Md).mean())
    events: list[Event] = []
    result = fit(data, untrained, steps=60, batch_size=64, progress=events.append)
    assert result.scores.log_likelihood > before + 0.02
    assert result.history[-1]["valid_loss"] < result.history[0]["valid_loss"]
    assert 0.5 < result.scores.neighbor_distance_ratio < 2 and result.scores.memorization_rate < 0.1
    epochs = [event for event in events if isinstance(event, EpochDone)]
    assert epochs and all(event.values["resident_mb"] > 10 for event in epochs)
    plans = [event.plan for event in events if isinstance(event, Planned)]
    assert isinstance(events[0], Planned) and len(plans) == 2
    assert plans == [{**result.plan.to_dict(), "tier": tier} for tier in (None, result.plan.tier)]  # where its data is
    assert sum(size for _, size in result.plan.parts) == result.predicted
    assert result.observed >= 0 and result.predicted > 0
    assert repr(result).startswith("WPOResult(centers=150, dimensions=2, factor=triangle, strategy=single")


def test_a_run_is_resumed_with_the_same_bits(tmp_path: Path):
    data = small()
    options: dict[str, Any] = {"schedule": "constant", "warmup": 0, "ema": 0.9, "calibrate": False}
    whole = fit(data, steps=9, **options)
    fit(data, steps=4, out=tmp_path / "run", **options)
    resumed = fit(data, steps=9, out=tmp_path / "run", **options)
    for one, other in zip(weights(resumed), weights(whole), strict=True):
        assert torch.equal(one, other)
    np.testing.assert_array_equal(resumed.curve, whole.curve)


def test_a_cancelled_run_is_resumed_too(tmp_path: Path):
    data, cancel = small(), threading.Event()
    options: dict[str, Any] = {"schedule": "constant", "warmup": 0, "ema": 0.9, "calibrate": False}
    with pytest.raises(CancelledError):
        fit(data, steps=9, out=tmp_path, progress=lambda _: cancel.set(), cancel=cancel, **options)
    resumed, whole = fit(data, steps=9, out=tmp_path, **options), fit(data, steps=9, **options)
    assert_near(weights(resumed), weights(whole), 0)


def test_invalid_arguments_are_refused():
    data = small()
    good = model(data)
    bad = data.train_Nd.clone()
    bad[5, 1] = math.nan
    with pytest.raises(InputError, match=r"samples have 1 row\(s\) with NaN or infinity, the first is row 5"):
        wpo.train(good, bad)
    with pytest.raises(InputError, match="samples have 3 columns and the centers 2"):
        wpo.train(good, torch.zeros(9, 3))
    with pytest.raises(InputError, match=r"give a wpo.ScoreModel"):
        wpo.train(torch.nn.Linear(2, 2), data.train_Nd)  # pyright: ignore[reportArgumentType]
    for options, words in (
        ({"strategy": "fast"}, "strategy is 'fast'; choose one of auto"),
        ({"strategy": "model_parallel"}, "name several with --devices"),
        ({"strategy": "model_parallel", "ranks": 3, "batch_size": 25}, "give a multiple of 3, such as 27"),
        ({"strategy": "model_parallel", "ranks": 2, "accumulation_steps": 5}, "give a multiple of 10"),
        ({"strategy": "model_parallel", "ranks": 2, "batch_size": 200}, "there are 64 samples"),
        ({"chunk_size": 0}, "chunk_size is 0"),
        ({"monitor": "speed"}, "monitor is 'speed'"),
        ({"ema_span": 2.0}, "ema_span is 2.0"),
        ({"chunks": 3}, "did you mean"),
        ({"calibrate": False, "add_training_points": True}, "add_training_points needs calibrate"),
    ):
        with pytest.raises(ConfigError, match=words):
            fit(data, good, **options)
    with pytest.raises(ConfigError, match="leaves some to train on"):
        wpo.train(good, data.train_Nd, held_out=1.0)
    with pytest.raises(BudgetError, match="factor='lowrank' has far fewer"):
        wpo.train(wpo.ScoreModel(torch.randn(4, 300)), torch.randn(20, 300), budget="1MB", device="cpu")


def test_calibration_raises_the_likelihood_and_adds_centers():
    data = small()
    plain = fit(data, calibrate=False)
    known = len(data.centers_Kd)
    first: list[torch.Tensor] = []
    for added, count in ((False, known), (True, known + len(data.train_Nd))):
        result = fit(data, add_training_points=added)
        assert len(result.model.centers) == count
        first = first or weights(result)
        assert_near(weights(result), first, 0)
        assert result.scores.log_likelihood >= plain.scores.log_likelihood


OFFERED: list[dict[str, Any]] = [
    {"optimizer": "sgd", "lr": 1e-4},
    {"optimizer": torch.optim.RMSprop},
    {"schedule": functools.partial(torch.optim.lr_scheduler.StepLR, step_size=1)},
    {"schedule": "cosine", "first_cycle": 1, "cycle_mult": 2, "warmup": 0.0},
    {"compile": {"backend": "eager"}},
]


@pytest.mark.parametrize("options", OFFERED, ids=["sgd", "own", "torch scheduler", "warm restarts", "compiled"])
def test_optimizers_schedules_and_compiling_of_train(options: dict[str, Any]):
    data = small()
    plain, found = (fit(data, model(data), calibrate=False, **given) for given in ({}, options))
    assert np.isfinite(found.curve).all()
    if "compile" in options:
        assert_near(weights(found), weights(plain), 1e-9)
    else:
        assert not all(map(torch.equal, weights(found), weights(plain)))
