"""Components spread over ranks: the numbers and gradients are those of one process that has them all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import brimful
from brimful import ConfigError, InputError, WorkerError

from ...helpers.rank_pool import RankPool, run_ranks
from .fold_ranks import data, fold, terms
from .folding import Bumps, density, loss

pytestmark = pytest.mark.usefixtures("one_thread")
Ranks = Callable[..., list[Any]]


@pytest.fixture
def ranks(rank_pool: RankPool) -> Ranks:
    """Folds on as many ranks as there are numbers of samples, and gives what each of them has."""
    return lambda **order: rank_pool.call(fold, len(order["samples"]), order)


def whole(order: dict[str, Any]) -> list[dict[str, Any]]:
    """What each rank should find; what the term holds gets its gradient from all ranks together."""
    term, captured = terms("module" if order["kind"] == "full" else order["kind"])
    components, samples = data(order["components"], order["samples"])
    if "nan" in order:
        samples[order["nan"]][0, 0] = torch.nan
    for each in (*components, *samples):
        each.requires_grad_()
    found, total = [], torch.zeros((), dtype=torch.float64)
    for x in samples:
        logit, value = term(torch.cat(components), x)
        lse, mean = torch.logsumexp(logit, 1), (torch.softmax(logit, 1)[..., None] * value).sum(1)
        total = total + loss(lse, mean)
        found.append({"lse": lse.detach(), "mean": mean.detach()})
    total.backward()
    return [
        {**each, "c": c.grad, "x": x.grad, "captured": [one.grad for one in captured]}
        for each, c, x in zip(found, components, samples, strict=True)
    ]


def same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    for mine, other in zip(found, expected, strict=True):
        assert not isinstance(mine, Exception), mine
        for name in ("lse", "mean", "c", "x"):
            torch.testing.assert_close(mine[name], other[name], rtol=1e-9, atol=1e-11)
    for index, other in enumerate(expected[0]["captured"]):
        total = sum(rank["captured"][index] for rank in found)
        torch.testing.assert_close(total, other, rtol=1e-9, atol=1e-11)


@settings(max_examples=16)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 5)), min_size=1, max_size=4).filter(
        lambda sizes: sum(k for k, _ in sizes) > 0 and sum(b for _, b in sizes) > 0
    ),
    chunk=st.one_of(st.just("auto"), st.integers(1, 8)),
    kind=st.sampled_from(["module", "function", "fused"]),
)
def test_any_number_of_ranks_components_and_samples(ranks: Ranks, sizes: Any, chunk: Any, kind: str):
    order = {"components": [k for k, _ in sizes], "samples": [b for _, b in sizes], "chunk_size": chunk, "kind": kind}
    same(ranks(**order), whole(order))


@pytest.mark.parametrize(("components", "samples"), [([0, 0], [2, 1]), ([2, 3], [0, 0]), ([0, 0], [0, 0])])
def test_nothing_on_any_rank(ranks: Ranks, components: list[int], samples: list[int]):
    found = ranks(components=components, samples=samples)
    for each, count, size in zip(found, components, samples, strict=True):
        assert each["lse"].shape == (size,) and each["mean"].shape == (size, 2)
        assert (each["lse"] == -torch.inf).all() and (each["mean"] == 0).all()
        assert each["c"].shape == (count, 3) and each["x"].shape == (size, 3)
        assert all((one == 0).all() for one in each["captured"])


def test_out_of_memory_on_a_rank_is_its_own_affair(ranks: Ranks):
    order = {"components": [7, 2, 5], "samples": [2, 4, 1], "chunk_size": 7, "kind": "full"}
    same(ranks(**order, strategy="model_parallel"), whole(order))


def test_a_rank_whose_samples_want_no_gradient_takes_part(ranks: Ranks):
    order = {"components": [3, 4], "samples": [2, 3], "kind": "fused"}
    found, expected = ranks(**order, frozen=1), whole(order)
    assert found[1]["x"] is None
    found[1]["x"] = expected[1]["x"]
    same(found, expected)
    assert all(each["x"] is None for each in ranks(**order, x_grad=False))


def test_a_bad_sample_is_bad_on_its_own_rank_alone(ranks: Ranks):
    order = {"components": [3, 4, 2], "samples": [2, 3, 1], "kind": "module"}
    found, clean = ranks(**order, nan=1), whole(order)
    assert found[1]["lse"].isnan().tolist() == [True, False, False]
    assert found[1]["mean"].isnan().any(1).tolist() == [True, False, False]
    for rank in (0, 2):
        torch.testing.assert_close(found[rank]["lse"], clean[rank]["lse"], rtol=1e-9, atol=0)
        torch.testing.assert_close(found[rank]["x"], clean[rank]["x"], rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(found[1]["lse"][1:], clean[1]["lse"][1:], rtol=1e-9, atol=0)


def test_ranks_train_as_one_does():
    x = torch.randn(16, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    curves = []
    for count in (1, 2):
        options = {"epochs": 3, "batch_size": 8, "lr": 0.02, "device": "cpu", "progress": False, "ranks": count}
        curves.append(brimful.train(Bumps(), density, {"x": x}, **options).curve)
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-9)


@pytest.mark.parametrize(
    ("order", "error", "words"),
    [
        ({"no_grad": 1}, InputError, "some ranks fold under torch.no_grad()"),
        ({"other": 1}, InputError, "the ranks' x differ in form"),
        ({"strategy": "chunked"}, ConfigError, "use 'model_parallel'"),
    ],
)
def test_ranks_that_disagree_are_an_error_on_each(
    ranks: Ranks, order: dict[str, Any], error: type[Exception], words: str
):
    for raised in ranks(components=[2, 2], samples=[2, 2], **order):
        assert isinstance(raised, error) and words in str(raised)


@pytest.mark.parametrize("kind", ["dying forward", pytest.param("dying backward", marks=pytest.mark.soak)])
def test_a_rank_that_dies_ends_the_others(tmp_path: Path, kind: str):
    order = {"components": [2, 2, 2], "samples": [2, 2, 2], "kind": kind, "chunk_size": 2}
    first, died, last = run_ranks(tmp_path, fold, 3, order)
    assert died is None
    for raised in (first, last):
        assert isinstance(raised, WorkerError) and str(raised).startswith("another rank is gone")
