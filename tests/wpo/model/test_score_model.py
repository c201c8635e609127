"""The model matches its definition, at every noise level, by every strategy."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful import ConfigError, InputError
from brimful.wpo import ScoreModel
from brimful.wpo.options import FACTORS, STRATEGIES

from ..helpers import oracle
from ..helpers.oracle import assert_near, gradients, make_model, make_samples


@settings(max_examples=25)
@given(
    st.integers(1, 7), st.integers(1, 5), st.integers(1, 6), st.integers(1, 9), st.sampled_from(STRATEGIES),
    st.sampled_from(FACTORS), st.integers(0, 99),
)  # fmt: skip
def test_loss_and_gradients_are_the_materialized_ones(K, B, d, chunk, strategy, factor, seed):
    model, x = make_model(K, d, seed=seed, factor=factor, rank=2), make_samples(B, d, seed)
    wanted = oracle.losses(model, x)
    found = model.losses(x, strategy=strategy, chunk_size=chunk)
    assert_near([found], [wanted])
    assert_near(gradients(model, found.mean()), gradients(model, wanted.mean()))
    assert_near([model.loss(x, strategy=strategy, chunk_size=chunk)], [wanted.mean()])


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("d", [1, 2, 4])
def test_the_loss_is_that_of_its_definition(d: int, factor: str):
    model, x = make_model(4, d, factor=factor, rank=2), make_samples(3, d)
    assert_near([model.losses(x).detach()], [oracle.losses_by_definition(model, x)])


@pytest.mark.parametrize(
    ("strategy", "factor"),
    [
        ("single", "triangle"),
        ("chunked", "triangle"),
        ("chunked", "lowrank"),
        pytest.param("single", "lowrank", marks=pytest.mark.soak),
        *(pytest.param("gradient_accumulation", factor, marks=pytest.mark.soak) for factor in FACTORS),
    ],
)
def test_gradients_are_finite_differences(factor: str, strategy: str):
    model, x = make_model(3, 2, factor=factor, rank=1, hidden=3), make_samples(4, 2)
    found = gradients(model, model.loss(x, strategy=strategy, chunk_size=2))
    step = 1e-6
    for parameter, gradient in zip(model.parameters(), found, strict=True):
        flat = parameter.data.view(-1)
        for place in range(0, len(flat), max(1, len(flat) // 5)):
            before, sides = float(flat[place]), []
            for side in (step, -step):
                flat[place] = before + side
                sides.append(model.loss(x).item())
            flat[place] = before
            assert (sides[0] - sides[1]) / (2 * step) == pytest.approx(
                float(gradient.view(-1)[place]), rel=1e-4, abs=1e-7
            )


@settings(max_examples=12)
@given(st.integers(1, 6), st.integers(1, 5), st.sampled_from([0.0, 1e-3, 0.7, 50.0]), st.sampled_from(FACTORS))
def test_density_and_score_at_any_noise_level(K: int, d: int, t: float, factor: str):
    model, x = make_model(K, d, factor=factor, rank=2, beta=1.3), make_samples(4, d).requires_grad_()
    wanted = oracle.log_prob(model, x, t)
    found = model.log_prob(x, t)
    assert_near([found], [wanted])
    gradient = torch.autograd.grad(found.sum(), x)[0]
    assert_near([gradient], torch.autograd.grad(wanted.sum(), x))
    assert_near([model.score(x, t)], [gradient])
    with torch.no_grad():
        assert_near([model.log_prob(x, t), model.score(x, t)], [wanted, gradient])


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("t", [0.0, 0.5])
def test_the_likelihood_can_be_trained_as_well(t: float, factor: str):
    model, x = make_model(4, 3, factor=factor, rank=2), make_samples(5, 3)
    found = gradients(model, model.log_prob(x, t).sum())
    assert_near(found, gradients(model, oracle.log_prob(model, x, t).sum()))


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("t", [0.0, 0.8])
def test_samples_have_the_moments_of_the_mixture(t: float, factor: str):
    model = make_model(3, 2, factor=factor, rank=1, perturbation=0.2)
    x = model.sample(60_000, t, seed=0)
    covariance = torch.linalg.inv(oracle.precisions(model).detach()) + t * torch.eye(2, dtype=torch.float64)
    mean = model.centers.mean(0)
    apart = model.centers - mean
    wanted = covariance.mean(0) + apart.mT @ apart / 3
    size = wanted.diagonal().sqrt()
    assert float(((x.mean(0) - mean) / size).abs().max()) < 0.02
    assert float(((x.mT.cov() - wanted) / (size[:, None] * size)).abs().max()) < 0.03


def test_samples_by_seed_and_of_any_number(monkeypatch: pytest.MonkeyPatch):
    model = make_model(20, 3)
    whole = model.sample(50, seed=3)
    assert torch.equal(whole, model.sample(50, generator=torch.Generator().manual_seed(3)))
    assert not torch.equal(whole, model.sample(50, seed=4))
    assert not torch.equal(model.sample(50), model.sample(50))
    monkeypatch.setattr("brimful.wpo.model.score_model._MAX_FACTOR_ENTRIES", 18)  # three centers at a time
    torch.testing.assert_close(model.sample(50, seed=3), whole)
    assert model.sample(0).shape == (0, 3) and model.sample(1).shape == (1, 3)


def test_it_starts_as_a_kernel_density_estimate():
    for scale in (1e-4, 1.0, 1e5):
        generator = torch.Generator().manual_seed(0)
        centers = scale * (torch.randn(300, 2, generator=generator, dtype=torch.float64) + 5)
        model = ScoreModel(centers)
        wanted = torch.eye(2, dtype=torch.float64).expand(300, 2, 2)
        assert (
            float((oracle.precisions(model).detach() * model.scale_d[:, None] * model.scale_d - wanted).abs().max())
            < 0.3
        )
        assert 0.01 * scale < float(model.scale_d.min()) <= float(model.scale_d.max()) < scale
        loss = model.loss(scale * (torch.randn(50, 2, dtype=torch.float64, generator=generator) + 5)).item()
        assert -10 < loss < 0


def test_the_scale_of_the_data_does_not_matter():
    centers, x = make_samples(30, 2, 0), make_samples(9, 2)
    one, other = ScoreModel(centers), ScoreModel(1000 * centers)
    assert_near([other.loss(1000 * x)], [one.loss(x)], 1e-6)
    assert_near([other.log_prob(1000 * x) + 2 * math.log(1000)], [one.log_prob(x)], 1e-6)
    assert_near([other.sample(5, seed=0)], [1000 * one.sample(5, seed=0)], 1e-6)


def test_the_loss_in_the_units_of_the_data():
    model, x = make_model(4, 2, scale=1.0), make_samples(6, 2)
    P, r = oracle.precisions(model).detach(), x[:, None] - model.centers
    u = torch.einsum("kij,bkj->bki", P, r)
    w = (0.5 * torch.logdet(P) - 0.5 * (r * u).sum(-1)).softmax(1)
    s = (w[..., None] * u).sum(1)
    trace = P.diagonal(dim1=-2, dim2=-1).sum(-1)
    wanted = 2 * (w * (u.square().sum(-1) - trace)).sum(1) - s.square().sum(-1)
    assert_near([model.losses(x)], [wanted])


def test_one_center_duplicates_and_one_dimension():
    for centers in (
        make_samples(1, 3),
        make_samples(1, 3).expand(6, 3),
        make_samples(4, 1),
        torch.zeros(3, 2, dtype=torch.float64),
    ):
        model, x = make_model(centers=centers), make_samples(5, centers.shape[1])
        assert_near([model.losses(x)], [oracle.losses(model, x)])
        assert_near([model.log_prob(x)], [oracle.log_prob(model, x)])
        assert model.sample(4, seed=0).isfinite().all()


def test_a_sample_that_is_nan_has_a_loss_that_is_nan():
    model, x = make_model(6, 2), make_samples(5, 2)
    clean = model.losses(x)
    x[2, 1] = math.nan
    for strategy in STRATEGIES:
        found = model.losses(x, strategy=strategy, chunk_size=2)
        assert found.isnan().tolist() == [False, False, True, False, False]
        keep = [0, 1, 3, 4]
        assert_near([found[keep]], [clean[keep]])


@pytest.mark.parametrize("strategy", ["single", "chunked"])
def test_single_precision_is_near(strategy: str):
    """Stated in docs/wpo.md: 1e-5 of the loss, 1e-4 of a gradient's largest entry."""
    model, x = make_model(50, 6, hidden=16), make_samples(20, 6)
    wanted = oracle.losses(model, x)
    wanted_gradients = gradients(model, wanted.mean())
    single = model.float()
    found = single.losses(x.float(), strategy=strategy, chunk_size=7)
    assert found.dtype == torch.float32
    assert_near([found.double()], [wanted], 1e-5)
    assert_near([each.double() for each in gradients(single, found.mean())], wanted_gradients, 1e-4)


@pytest.mark.parametrize("d", [768, pytest.param(3072, marks=pytest.mark.soak)])
def test_image_sizes_do_not_overflow_in_single_precision(d: int):
    """At d = 3072 exponents reach thousands: clamping them, or a plain exponential, would leave nothing."""
    generator = torch.Generator().manual_seed(0)
    centers = torch.rand(3, d, generator=generator)
    model = ScoreModel(centers, hidden=2, depth=1)
    x = torch.rand(2, d, generator=generator)
    with torch.no_grad():
        model.term.network.last.bias.add_(0.02 * torch.randn(model.factor.out_features, generator=generator))
        found = model.losses(x, strategy="chunked", chunk_size=2)
        density = model.log_prob(x)
    P = model.factor.constrain(model.term.network(model.standardized_Kd)).detach()
    logits, values = [], []
    from brimful.wpo.model.packed_triangle import unpack

    for k in range(3):
        L = unpack(P[k : k + 1], d)[0].double()
        r = ((x - model.shift_d) / model.scale_d - model.standardized_Kd[k]).double()
        y = r @ L
        u = y @ L.mT
        logits.append(L.diagonal().log().sum() - 0.5 * y.square().sum(-1))
        values.append(torch.cat((-u, u.square().sum(-1, keepdim=True) - L.square().sum()), 1))
    logit = torch.stack(logits, 1)
    assert float(logit.abs().max()) > d / 3
    mean = (logit.softmax(1)[..., None] * torch.stack(values, 1)).sum(1)
    wanted = 2 * mean[:, -1] - mean[:, :-1].square().sum(-1)
    assert_near([found.double()], [wanted], 1e-5)
    constant = math.log(3) + 0.5 * d * math.log(2 * math.pi) + float(model.scale_d.double().log().sum())
    assert_near([density.double()], [logit.logsumexp(1) - constant], 1e-5)


def test_invalid_arguments_are_refused():
    good = torch.zeros(3, 2)
    for centers, words in ((torch.zeros(3), "give \\(rows, d\\)"), (torch.zeros(0, 2), "at least one row")):
        with pytest.raises(InputError, match=words):
            ScoreModel(centers)
    bad = good.clone()
    bad[1, 0] = math.inf
    with pytest.raises(InputError, match="the first is row 1"):
        ScoreModel(bad)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"stability": 0.0}, "stability is 0"),
        ({"factor": "dense"}, "choose one of triangle, lowrank"),
        ({"hidden": 0}, "hidden is 0"),
        ({"rank": 1.5}, "rank is 1.5"),
        ({"beta": -1.0}, "beta is -1"),
        ({"scale": 0.0}, "scale is 0"),
    ]
    for options, words in wrong:
        with pytest.raises(ConfigError, match=words):
            ScoreModel(good, **options)
    model = ScoreModel(np.zeros((3, 2)))
    assert model.dtype == torch.float64
    for call in (lambda: model.loss(torch.zeros(4, 3)), lambda: model.log_prob(torch.zeros(3, 2), -1.0)):
        with pytest.raises(InputError):
            call()
    with pytest.raises(InputError, match="n is -1"):
        model.sample(-1)


def test_inputs_of_other_kinds_are_taken_or_refused_with_a_sentence():
    model = ScoreModel(torch.randn(8, 2, generator=torch.Generator().manual_seed(0)), hidden=4, depth=1)
    assert model.sample(np.int64(3), seed=0).shape == (3, 2)
    time = torch.tensor(0.5)
    assert torch.equal(model.log_prob([[0.1, 0.2]], t=time), model.log_prob([[0.1, 0.2]], t=0.5))  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match=r"samples are a str; give numbers of shape \(samples, 2\)"):
        model.log_prob("abc")
    for nothing in (None, [["a", "b"]], np.array([object()]), torch.ones(1, 2, dtype=torch.complex64)):
        with pytest.raises(InputError, match=r"give numbers of shape \(samples, 2\)"):
            model.score(nothing)
    assert model.sample(torch.tensor(3), seed=0).shape == (3, 2)  # pyright: ignore[reportArgumentType]
    frame = pd.DataFrame({"a": [0.1, 0.3], "b": [0.2, 0.4]})
    assert torch.equal(model.log_prob(frame), model.log_prob([[0.1, 0.2], [0.3, 0.4]]))
    for refused in (torch.ones(3, 2).to_sparse(), pd.DataFrame({"a": ["x"], "b": [1.0]})):
        with pytest.raises(InputError, match="give numbers of shape"):
            model.log_prob(refused)
    for wrong in (2.0, "abc", True, torch.ones(2), torch.tensor(2.0)):
        with pytest.raises(InputError, match="give a number of samples, 0 or more"):
            model.sample(wrong)  # pyright: ignore[reportArgumentType]
    for wrong in ("abc", torch.ones(2), None):
        with pytest.raises(InputError, match="give a time of 0 or more, one number"):
            model.sample(3, t=wrong)  # pyright: ignore[reportArgumentType]
