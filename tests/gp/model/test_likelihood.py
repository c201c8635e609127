"""The likelihood against scikit-learn and SciPy, its gradient against autograd, its information against samples."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from brimful.gp.model.kernels import custom, parse
from brimful.gp.model.likelihood import evaluate, pseudo_inverse, solve, with_noise
from brimful.gp.model.tasks import MEANS, TaskBatch, standardize

from ..helpers.drawn import TEXTS, nlml, plain, thetas, waves

Peer: Any = GaussianProcessRegressor  # its types know no `optimizer=None`
logpdf: Any = multivariate_normal.logpdf
texts, means, seeds = st.sampled_from(TEXTS), st.sampled_from(MEANS), st.integers(0, 10**6)


@pytest.mark.parametrize("Q", [0, 1, 2, 3, 7])
def test_normal_matrices_are_inverted(Q: int):
    B_TNQ = torch.randn(4, 9, Q, dtype=torch.float64, generator=torch.Generator().manual_seed(Q))
    A_TQQ = B_TNQ.mT @ B_TNQ
    torch.testing.assert_close(pseudo_inverse(A_TQQ), torch.linalg.inv(A_TQQ), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("which", [0, 1, 3])
def test_a_regressor_that_others_before_it_tell_gets_nothing(which: int):
    B_TNQ = torch.randn(4, 9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(which))
    B_TNQ[1:, :, which] = 3 * B_TNQ[1:, :, :which].sum(2)
    inverse_TQQ, left = pseudo_inverse(B_TNQ.mT @ B_TNQ), [q for q in range(4) if q != which]
    assert (inverse_TQQ[1:, which] == 0).all() and (inverse_TQQ[1:, :, which] == 0).all()
    some_TNQ = B_TNQ[:, :, left]
    torch.testing.assert_close(inverse_TQQ[1:, left][:, :, left], torch.linalg.inv(some_TNQ.mT @ some_TNQ)[1:])
    torch.testing.assert_close(inverse_TQQ[0], torch.linalg.inv((B_TNQ.mT @ B_TNQ)[0]))


def holed(seed: int, text: str, mean: str, tasks: int = 3) -> TaskBatch:
    """Tasks in their own units, some of their points missing, with known noise on top."""
    x, y = waves(seed, tasks, 9, holes=0.2)
    known = 0.1 * torch.rand(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(seed))
    return standardize(x, y, parse(text), mean, known)[0]


@settings(max_examples=20)
@given(seeds, st.booleans())
def test_with_a_zero_mean_it_is_scikit_learns(seed: int, known_noise: bool):
    kernel, (x, y) = parse("rbf"), waves(seed, 3, 8)
    theta, known = thetas(seed, 3, kernel), torch.rand_like(y) if known_noise else torch.zeros_like(y)
    ours = nlml(kernel, plain(x, y, "zero", known), theta)
    for task in range(3):
        variance, length, noise = theta[task].exp().tolist()
        model = Peer(
            sk.ConstantKernel(variance) * sk.RBF(length), alpha=noise + known[task].numpy(), optimizer=None
        ).fit(x[task].numpy(), y[task].numpy())
        assert ours[task].item() == pytest.approx(-model.log_marginal_likelihood(), rel=1e-9)


@settings(max_examples=30)
@given(texts, st.sampled_from(["constant", "linear"]), seeds)
def test_the_mean_is_the_generalised_least_squares_one(text: str, mean: str, seed: int):
    kernel, (x, y) = parse(text), waves(seed, 2, 8)
    tasks, theta = plain(x, y, mean), thetas(seed, 2, kernel)
    K_TNN = with_noise(kernel(x, x, theta[:, :-1]), tasks, theta)
    value, beta_TQ, *_ = evaluate(kernel, tasks, theta)
    for task in range(2):
        K, H, target = (entry[task].numpy() for entry in (K_TNN, tasks.H_TNQ, y))
        beta = np.linalg.solve(H.T @ np.linalg.solve(K, H), H.T @ np.linalg.solve(K, target))
        np.testing.assert_allclose(beta_TQ[task], beta, rtol=1e-6, atol=1e-8)
        assert value[task].item() == pytest.approx(-logpdf(target, H @ beta, K), rel=1e-8)


@settings(max_examples=30)
@given(texts, means, seeds, st.lists(st.integers(0, 7), min_size=1, max_size=5, unique=True))
def test_a_missing_point_is_as_if_it_had_never_been(text: str, mean: str, seed: int, gone: list[int]):
    kernel, (x, y) = parse(text), waves(seed, 2, 8)
    theta, kept = thetas(seed, 2, kernel), [position for position in range(8) if position not in gone]
    short, _, _ = standardize(x[:, kept], y[:, kept], kernel, mean)
    y[:, gone] = math.nan
    whole, _, _ = standardize(x, y, kernel, mean)
    ours, ours_beta, *ours_derivatives = evaluate(kernel, whole, theta)
    value, beta, *derivatives = evaluate(kernel, short, theta)
    torch.testing.assert_close(ours, value)
    torch.testing.assert_close(ours_beta, beta, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(ours_derivatives[0], derivatives[0], rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(ours_derivatives[1], derivatives[1], rtol=1e-5, atol=1e-7)


@settings(max_examples=40)
@given(texts, means, seeds)
def test_the_gradient_is_autograds(text: str, mean: str, seed: int):
    kernel, tasks = parse(text), holed(seed, text, mean)
    theta = thetas(seed, 3, kernel).requires_grad_()
    (expected,) = torch.autograd.grad(nlml(kernel, tasks, theta).sum(), theta)
    value, _, *derivatives = evaluate(kernel, tasks, theta.detach())
    torch.testing.assert_close(derivatives[0], expected, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(value, nlml(kernel, tasks, theta.detach()))


@settings(max_examples=30)
@given(texts, means, seeds)
def test_the_information_is_symmetric_and_never_negative(text: str, mean: str, seed: int):
    kernel, tasks = parse(text), holed(seed, text, mean)
    information = evaluate(kernel, tasks, thetas(seed, 3, kernel))[3]
    torch.testing.assert_close(information, information.mT)
    values = torch.linalg.eigvalsh(information)
    assert (values >= -1e-9 * values.abs().amax(1, keepdim=True)).all()


@pytest.mark.parametrize("text", ["rbf", "matern32 + linear", "rational_quadratic"])
def test_the_information_is_on_average_fishers(text: str):
    kernel, (x, _) = parse(text), waves(1, 1, 8)
    theta, samples = thetas(2, 1, kernel), 20_000
    one = plain(x, torch.zeros(1, 8, dtype=x.dtype), "zero")
    K_TNN = with_noise(kernel(x, x, theta[:, :-1]), one, theta)
    noise = torch.randn(samples, 8, dtype=x.dtype, generator=torch.Generator().manual_seed(0))
    many = plain(x.expand(samples, -1, -1), noise @ torch.linalg.cholesky(K_TNN[0]).mT, "zero")
    information = evaluate(kernel, many, theta.expand(samples, -1))[3]
    dK_PNN = torch.cat([kernel.derive(x, theta[:, :-1])[1][0], theta[0, -1].exp() * torch.eye(8, dtype=x.dtype)[None]])
    through = torch.linalg.solve(K_TNN, dK_PNN)
    fisher = 0.5 * torch.einsum("pij,qji->pq", through, through)
    scale = torch.outer(fisher.diagonal(), fisher.diagonal()).sqrt()
    torch.testing.assert_close(information.mean(0) / scale, fisher / scale, rtol=0.0, atol=0.03)


def test_noise_that_is_known_is_noise():
    kernel, (x, y) = parse("matern52"), waves(4, 2, 8)
    theta = thetas(4, 2, kernel)
    known = theta[:, -1:].exp().expand_as(y).clone()
    fixed = theta.clone()
    fixed[:, -1] = -math.inf
    value, beta, *derivatives = evaluate(kernel, plain(x, y, "constant", known), fixed)
    expected, also_beta, *others = evaluate(kernel, plain(x, y, "constant"), theta)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(beta, also_beta)
    torch.testing.assert_close(derivatives[0][:, :-1], others[0][:, :-1])
    assert (derivatives[0][:, -1] == 0).all()


def test_a_matrix_that_is_not_positive_definite_is_flagged_and_harms_no_other():
    kernel, (x, y) = parse("rbf"), waves(5, 3, 8)
    theta = thetas(5, 3, kernel)
    expected, _, *derivatives = evaluate(kernel, plain(x, y, "constant"), theta)
    theta[1, -1], x[1] = -math.inf, 0.5
    value, _, *others = evaluate(kernel, plain(x, y, "constant"), theta)
    assert value.isinf().tolist() == [False, True, False]
    for task in (0, 2):
        assert torch.equal(value[task], expected[task])
        assert torch.equal(others[0][task], derivatives[0][task])


def test_a_regressor_that_the_points_cannot_tell_changes_nothing():
    kernel, (x, y) = parse("rbf"), waves(6, 2, 8)
    x[:] = 0.5  # all in one place: there is no trend
    theta = thetas(6, 2, kernel)
    level, _, *derivatives = evaluate(kernel, plain(x, y, "constant"), theta)
    both, _, *others = evaluate(kernel, plain(x, y, "linear"), theta)
    torch.testing.assert_close(both, level)
    torch.testing.assert_close(others[0], derivatives[0])


def test_no_points_have_likelihood_one():
    kernel = parse("rbf")
    tasks, _, _ = standardize(*waves(0, 2, 4, holes=1.0), kernel, "linear")
    value, _, *derivatives = evaluate(kernel, tasks, thetas(0, 2, kernel))
    assert (value == 0).all()
    assert (derivatives[0] == 0).all()


def test_a_kernel_of_your_own_has_the_same_likelihood_as_its_built_in_twin():
    own = custom(lambda a, b, p: p["v"] * torch.exp(-0.5 * ((a - b.T) / p["l"]).square()), v=1.0, l=1.0)
    tasks, theta = plain(*waves(7, 3, 8), "linear"), thetas(7, 3, own)
    torch.testing.assert_close(nlml(own, tasks, theta), nlml(parse("rbf"), tasks, theta))


def test_a_batch_is_its_tasks_one_by_one():
    kernel, tasks = parse("linear + rbf"), holed(8, "linear + rbf", "linear", tasks=5)
    theta = thetas(8, 5, kernel)
    together, _, *derivatives = evaluate(kernel, tasks, theta)
    for task in range(5):
        index = torch.tensor([task])
        alone, _, *own = evaluate(kernel, tasks.select(index), theta[index])
        torch.testing.assert_close(together[index], alone)
        torch.testing.assert_close(derivatives[0][index], own[0])
        torch.testing.assert_close(derivatives[1][index], own[1])


def test_the_weights_solve_for_the_residual():
    kernel, tasks = parse("matern32"), holed(9, "matern32", "linear")
    theta = thetas(9, 3, kernel)
    K_TNN = with_noise(kernel(tasks.x_TND, tasks.x_TND, theta[:, :-1]), tasks, theta)
    solved = solve(K_TNN, tasks)
    torch.testing.assert_close((K_TNN @ solved.weights_TN[:, :, None])[:, :, 0], solved.residual_TN)
    assert (solved.weights_TN[~tasks.mask_TN] == 0).all()
