"""Training: every strategy the same numbers, faults told of, runs that go on."""

import json
import math
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from brimful import BrimfulWarning, BudgetError, ConfigError, CorruptError, InputError, WorkerError, wpo
from brimful.core.runs.events import EpochDone
from brimful.wpo.memory_table import Table
from brimful.wpo.model.fold_term import TriangleTerm

from ...helpers.paths import command, environment
from ..helpers import shapes
from ..helpers.oracle import assert_near, gradients, made, samples
from ..helpers.shapes import fit, model, small

pytestmark = pytest.mark.usefixtures("one_thread")


def weights(found: wpo.Trained) -> list[torch.Tensor]:
    return [each.detach() for each in found.model.parameters()]


@pytest.mark.parametrize("factor", ["triangle", "lowrank"])
def test_every_strategy_trains_alike(factor: str):
    data = small()
    whole = fit(data, model(data, factor=factor, rank=1), strategy="single")
    assert whole.table.row.strategy == "single_gpu"
    for options in (
        {"strategy": "chunked", "chunk": 1},
        {"strategy": "chunked", "chunk": 5},
        {"strategy": "chunked", "chunk": 1000},
        {"strategy": "gradient_accumulation", "accumulate": 3, "chunk": 4},
        {"strategy": "gradient_accumulation"},
        {"strategy": "auto", "accumulate": 5},
    ):
        found = fit(data, model(data, factor=factor, rank=1), **options)
        assert_near(weights(found), weights(whole), 1e-9)
        np.testing.assert_allclose(found.curve, whole.curve, rtol=1e-9)
        assert found.scores.log_likelihood == pytest.approx(whole.scores.log_likelihood, rel=1e-9)


def test_ranks_that_share_the_centers_have_the_whole_gradient():
    """For 1 to 4 ranks, by chunks and of both factors: losses, score, density and every gradient."""
    done = subprocess.run(
        command("tests.wpo.helpers.ranks_runner"),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=environment(OMP_NUM_THREADS="1"),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert [each["ranks"] for each in found] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert max(off for each in found for off in each["off"].values()) < 1e-9


def test_ranks_that_share_the_centers_train_as_one():
    data = small()
    alone = fit(data)
    found = fit(data, ranks=2, strategy="model_parallel", accumulate=2, chunk=2)
    assert found.table.row.strategy == "model_parallel"
    assert_near(weights(found), weights(alone), 1e-9)
    np.testing.assert_allclose(found.curve, alone.curve, rtol=1e-9)
    for name in ("valid_loss", "log_likelihood"):
        assert found.history[-1][name] == pytest.approx(alone.history[-1][name], rel=1e-9)
    assert not found.model.sharded


def test_a_rank_that_dies_is_named():
    data = small()
    started = time.monotonic()
    with pytest.raises(WorkerError, match=r"rank 1 died \(exit code -9\)"):
        fit(data, shapes.Dying(data.centers_Kd, hidden=4, depth=1), ranks=2, strategy="model_parallel", steps=50)
    assert time.monotonic() - started < 60


def test_out_of_memory_in_mid_step_is_done_again(monkeypatch: pytest.MonkeyPatch):
    trained, x = made(9, 3), samples(6, 3)
    wanted = gradients(trained, trained.loss(x, strategy="single"))
    whole, largest = TriangleTerm._backward, 2

    def tight(term: TriangleTerm, gradient_kP: torch.Tensor, *rest: Any) -> Any:
        if len(gradient_kP) > largest:
            raise torch.OutOfMemoryError("a made-up end of memory")
        return whole(term, gradient_kP, *rest)

    monkeypatch.setattr(TriangleTerm, "_backward", tight)
    with pytest.warns(BrimfulWarning, match="out of memory on 9 components"):
        found = gradients(trained, trained.loss(x, strategy="chunked", chunk=9))
    assert_near(found, wanted, 1e-9)


def test_it_learns():
    data = wpo.dataset("2spirals", 300, samples=3000)
    untrained = model(data, hidden=32)
    with torch.no_grad():
        before = float(untrained.log_prob(data.held_out_Md).mean())
    heard: list[Any] = []
    found = fit(data, untrained, steps=150, batch_size=128, progress=heard.append)
    assert found.scores.log_likelihood > before + 0.02
    assert found.history[-1]["valid_loss"] < found.history[0]["valid_loss"]
    assert 0.5 < found.scores.neighbours < 2 and found.scores.copies < 0.1
    ends = [each for each in heard if isinstance(each, EpochDone)]
    assert ends and all(each.values["resident_mb"] > 10 for each in ends)
    assert found.observed > 0 and found.predicted > 0
    assert str(found).startswith("300 centers of 2 dimensions: log-likelihood -")


def test_a_run_goes_on_with_the_same_bits(tmp_path: Path):
    data = small()
    options: dict[str, Any] = {"schedule": "constant", "warmup": 0, "ema": 0.9}
    whole = fit(data, steps=9, **options)
    fit(data, steps=4, out=tmp_path / "run", **options)
    found = fit(data, steps=9, out=tmp_path / "run", **options)
    for one, other in zip(weights(found), weights(whole), strict=True):
        assert torch.equal(one, other)
    np.testing.assert_array_equal(found.curve, whole.curve)


def test_store(tmp_path: Path):
    data = small(dtype=torch.float32)
    for factor in ("triangle", "lowrank"):
        found = fit(data, model(data, factor=factor, rank=2, stability=0.5, beta=2.0), out=tmp_path / factor)
        again = wpo.load(tmp_path / factor)
        x = data.held_out_Md
        for t in (0.0, 0.3):
            assert torch.equal(found.model.log_prob(x, t), again.model.log_prob(x, t))
        assert torch.equal(found.model.sample(9, seed=1), again.model.sample(9, seed=1))
        assert (again.scores, again.table, again.best) == (found.scores, found.table, found.best)
        assert again.history == found.history and np.array_equal(again.curve, found.curve)
        assert torch.equal(again.shown.drawn_nd, found.shown.drawn_nd)
        (tmp_path / factor / "shown.safetensors").unlink()
        assert not len(wpo.load(tmp_path / factor).shown.data_nd)
    with pytest.raises(InputError, match="holds no trained model"):
        wpo.load(tmp_path)
    (tmp_path / "lowrank" / "weights.safetensors").write_bytes(b"nothing")
    with pytest.raises(CorruptError, match="damaged or incomplete"):
        wpo.load(tmp_path / "lowrank")


def test_what_cannot_be_trained_is_refused():
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
        ({"strategy": "model_parallel", "ranks": 2, "batch_size": 24, "accumulate": 5}, "give a multiple of 10"),
        ({"strategy": "model_parallel", "ranks": 2, "batch_size": 200}, "there are 64 samples"),
        ({"chunk": 0}, "chunk is 0"),
        ({"monitor": "speed"}, "monitor is 'speed'"),
        ({"average": 2.0}, "average is 2.0"),
    ):
        with pytest.raises(ConfigError, match=words):
            fit(data, good, **options)
    with pytest.raises(ConfigError, match="leaves some to train on"):
        wpo.train(good, data.train_Nd, held_out=1.0)
    with pytest.raises(BudgetError, match="factor='lowrank' has far fewer"):
        wpo.train(wpo.ScoreModel(torch.randn(4, 300)), torch.randn(20, 300), budget="1MB", device="cpu")


def test_the_table_is_shown_first():
    data, seen = small(), list[Table]()
    found = fit(data, explained=seen.append)
    assert seen == [found.table]
    assert "> single_gpu" in str(found.table) and "the fastest that fits" in str(found.table)


def test_settling_makes_held_out_rows_likelier_and_grows():
    data = small()
    plain = fit(data, settled=False)
    known = len(data.centers_Kd)
    for grown, count in ((False, known), (True, known + len(data.train_Nd))):
        found = fit(data, grown=grown)
        assert len(found.model.inner_Kd) == count
        assert_near(weights(found), weights(plain), 0)
        assert found.scores.log_likelihood >= plain.scores.log_likelihood
    with pytest.raises(ConfigError, match="grown needs settled"):
        fit(data, settled=False, grown=True)


def test_a_settled_model_is_loaded_as_it_was(tmp_path: Path):
    data = small()
    found = fit(data, grown=True)
    found.save(tmp_path)
    loaded = wpo.load(tmp_path)
    assert torch.equal(loaded.model.log_prob(data.held_out_Md), found.model.log_prob(data.held_out_Md))
    assert loaded.settings["settled_at"] == found.settings["settled_at"]
