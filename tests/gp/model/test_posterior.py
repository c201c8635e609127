"""What fitted processes say: against scikit-learn, against brute force, and against the statistics of draws."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from brimful import InputError, gp

from ..helpers.small import fit, rows

KERNELS: dict[str, Callable[[dict[str, float]], Any]] = {
    "rbf": lambda p: sk.RBF(p["lengthscale"]),
    "matern12": lambda p: sk.Matern(p["lengthscale"], nu=0.5),
    "matern32": lambda p: sk.Matern(p["lengthscale"], nu=1.5),
    "matern52": lambda p: sk.Matern(p["lengthscale"], nu=2.5),
    "rational_quadratic": lambda p: sk.RationalQuadratic(p["lengthscale"], p["alpha"]),
    "periodic": lambda p: sk.ExpSineSquared(p["lengthscale"], p["period"]),
}


def values(fitted: gp.Fit, task: int) -> dict[str, float]:
    return {name: float(value[task]) for name, value in fitted.params.items()}


def covariance(kernel: str, p: dict[str, float]) -> Any:
    return sk.ConstantKernel(p["variance"]) * KERNELS[kernel](p)


def regressor(kernel: Any, alpha: Any) -> Any:
    return GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None)  # pyright: ignore[reportArgumentType]


def reference(
    kernel: str, p: dict[str, float], x: np.ndarray, y: np.ndarray, level: np.ndarray, alpha: Any = None
) -> Any:
    """scikit-learn's process at given parameters, of targets less a mean."""
    alpha = p["noise"] if alpha is None else alpha
    return regressor(covariance(kernel, p), alpha).fit(x, y - level)


@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_predictions_are_those_of_scikit_learn(kernel: str, mean: str):
    x, y = rows(0, 4, 15)
    fitted = fit(x, y, kernel=kernel, mean=mean)
    assert fitted.converged.all()
    new = np.linspace(-0.5, 3.5, 12)[:, None]
    predicted, variance = fitted.predict(new)
    has_known_noise = fitted.predict(new, noise=True)[1]
    for task in range(4):
        p = values(fitted, task)
        derivative, level = p.get("mean_1", 0.0), p.get("mean_0", 0.0)
        there = reference(kernel, p, x[task], y[task], level + derivative * x[task, :, 0])
        expected, deviation = there.predict(new, return_std=True)
        np.testing.assert_allclose(predicted[task], expected + level + derivative * new[:, 0], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(variance[task], np.square(deviation), rtol=1e-8, atol=1e-9 * p["variance"])
        np.testing.assert_allclose(has_known_noise[task], np.square(deviation) + p["noise"], rtol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
def test_predictions_from_parameters_kept_in_four_bytes(kernel: str, tmp_path: Any):
    x, y = rows(0, 4, 15)
    exact = fit(x, y, kernel=kernel)
    fit(x, y, kernel=kernel, out=tmp_path / "models")
    fitted = gp.load(tmp_path / "models", device="cpu")
    assert fitted.params["noise"].dtype == np.float32
    new = np.linspace(0, 3, 12)
    for got, expected, scale in zip(
        fitted.predict(new), exact.predict(new), (1.0, exact.params["variance"].max()), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("ard", [False, True])
def test_several_dimensions(ard: bool):
    x, y = rows(1, 3, 25, 3)
    fitted = fit(x, y, ard=ard)
    new = np.random.default_rng(0).uniform(0, 3, (7, 3))
    mean, variance = fitted.predict(new)
    for task in range(3):
        p = values(fitted, task)
        scale: Any = np.array([p[f"lengthscale_{position}"] for position in range(3)]) if ard else p["lengthscale"]
        kernel = sk.ConstantKernel(p["variance"]) * sk.RBF(scale)
        there = regressor(kernel, p["noise"]).fit(x[task], y[task] - p["mean_0"])
        expected, deviation = there.predict(new, return_std=True)
        np.testing.assert_allclose(mean[task], expected + p["mean_0"], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(variance[task], np.square(deviation), rtol=1e-8, atol=1e-9)


def test_sums_and_products():
    x, y = rows(2, 3, 20)
    fitted = fit(x, y, kernel="linear + rbf * periodic", mean="zero")
    new = np.linspace(0, 3, 9)[:, None]
    mean, variance = fitted.predict(new)
    for task in range(3):
        p = values(fitted, task)
        wave = sk.RBF(p["rbf.lengthscale"]) * sk.ExpSineSquared(p["periodic.lengthscale"], p["periodic.period"])
        line = sk.ConstantKernel(p["linear.variance"]) * sk.DotProduct(1e-150)
        kernel = line + sk.ConstantKernel(p["rbf.variance"]) * wave
        there = regressor(kernel, p["noise"]).fit(x[task], y[task])
        expected, deviation = there.predict(new, return_std=True)
        np.testing.assert_allclose(mean[task], expected, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(variance[task], np.square(deviation), rtol=1e-6, atol=1e-8)


def test_known_noise_of_each_point():
    x, y = rows(3, 3, 12)
    noise = np.random.default_rng(0).uniform(0.01, 0.3, y.shape)
    fitted = fit(x, y, noise=noise)
    mean, variance = fitted.predict([0.5, 1.5])
    for task in range(3):
        p = values(fitted, task)
        there = reference("rbf", p, x[task], y[task], np.full(12, p["mean_0"]), alpha=noise[task])
        expected, deviation = there.predict([[0.5], [1.5]], return_std=True)
        np.testing.assert_allclose(mean[task], expected + p["mean_0"], rtol=1e-8)
        np.testing.assert_allclose(variance[task], np.square(deviation), rtol=1e-8, atol=1e-9)


def test_each_task_at_points_of_its_own():
    x, y = rows(4, 5, 10)
    fitted = fit(x, y)
    new = np.random.default_rng(1).uniform(0, 3, (5, 4, 1))
    mean, variance = fitted.predict(new)
    np.testing.assert_array_equal(mean, fitted.predict(new[:, :, 0])[0])
    for task in range(5):
        one = fitted.predict(new[task])
        np.testing.assert_allclose(mean[task], one[0][task], rtol=1e-12)
        np.testing.assert_allclose(variance[task], one[1][task], rtol=1e-9, atol=1e-12)


def generalised(p: dict[str, float], x: np.ndarray, y: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The mean's coefficients by generalised least squares, of some of the points."""
    H = x[others] ** np.arange(sum(name.startswith("mean_") for name in p))
    K = p["variance"] * np.exp(-0.5 * np.square((x[others] - x[others].T) / p["lengthscale"]))
    solved = np.linalg.solve(K + p["noise"] * np.eye(others.sum()), np.column_stack([H, y[others]]))
    return np.linalg.solve(H.T @ solved[:, :-1], H.T @ solved[:, -1])


@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
def test_leaving_one_out_is_dropping_the_point(mean: str):
    x, y = rows(5, 3, 11)
    y[1, 4] = np.nan
    fitted = fit(x, y, mean=mean)
    left, variance, density = fitted.loo()
    for task, point in np.ndindex(y.shape):
        if np.isnan(y[task, point]):
            assert np.isnan([left[task, point], variance[task, point], density[task, point]]).all()
            continue
        p = values(fitted, task)
        others = ~np.isnan(y[task]) & (np.arange(11) != point)
        level = x[task, :, 0][:, None] ** np.arange(fitted.model.regressors) @ generalised(p, x[task], y[task], others)
        there = reference("rbf", p, x[task][others], y[task][others], level[others])
        expected, deviation = there.predict(x[task][[point]], return_std=True)
        spread = deviation[0] ** 2 + p["noise"]
        off = y[task, point] - expected[0] - level[point]
        assert left[task, point] == pytest.approx(expected[0] + level[point], rel=1e-7, abs=1e-8)
        assert variance[task, point] == pytest.approx(spread, rel=1e-7)
        assert density[task, point] == pytest.approx(-0.5 * (off**2 / spread + np.log(2 * np.pi * spread)), rel=1e-6)


def test_leaving_out_what_the_others_cannot_tell():
    x, y = np.array([[0.0, 0.0, 0.0, 1.0]]), np.array([[0.1, -0.2, 0.3, 2.0]])  # the slope hangs on the last point
    mean, variance, density = fit(x, y, mean="linear").loo()
    assert np.isfinite([mean, variance, density]).all()
    assert mean[0, 3] == pytest.approx(2.0, abs=0.1)


def test_leaving_one_out_of_ragged_tasks():
    x, y = rows(6, 3, 9)
    counts = (4, 9, 6)
    fitted = fit([(x[task, :count], y[task, :count]) for task, count in enumerate(counts)])
    mean, variance, _ = fitted.loo()
    assert mean.shape == (3, 9)
    assert np.isfinite(mean).sum(1).tolist() == list(counts)
    for task, count in enumerate(counts):
        alone = fit([(x[task, :count], y[task, :count])]).loo()
        np.testing.assert_allclose(mean[task, :count], alone[0][0], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(variance[task, :count], alone[1][0], rtol=1e-4)


def test_draws_have_the_mean_and_the_covariance_of_the_predictions():
    x, y = rows(7, 2, 6)
    fitted = fit(x, y, kernel="matern32")
    new = np.array([0.2, 1.0, 1.1, 5.0])
    count = 20_000
    samples = fitted.sample(new, count)
    assert samples.shape == (2, count, 4)
    mean, variance = fitted.predict(new)
    error = np.sqrt(variance / count)
    assert (np.abs(samples.mean(1) - mean) < 5 * error).all()
    for task in range(2):
        p = values(fitted, task)
        there = reference("matern32", p, x[task], y[task], np.full(6, p["mean_0"]))
        expected = there.predict(new[:, None], return_cov=True)[1]
        found_cov = np.cov(samples[task].T)
        scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        assert (np.abs(found_cov - expected) < 5 * scale * np.sqrt(2 / count)).all()


def test_draws_follow_the_seed_and_not_the_cut():
    x, y = rows(8, 12, 7)
    fitted = fit(x, y, seed=3)
    samples = fitted.sample([0.5, 1.0], 4)
    assert np.array_equal(samples, fitted.sample([0.5, 1.0], 4, seed=3))
    assert not np.isclose(samples, fitted.sample([0.5, 1.0], 4, seed=4)).any()
    assert len(np.unique(samples)) == samples.size
    alone = fit(x[:5], y[:5], seed=3).sample([0.5, 1.0], 4)
    np.testing.assert_allclose(samples[:5], alone, rtol=1e-9)


def test_draws_of_ragged_tasks_do_not_depend_on_the_order_of_work():
    x, y = rows(9, 3, 8)
    short = fit([(x[0, :3], y[0, :3]), (x[1], y[1])]).sample([1.0], 2)
    padded = fit(x[:2], np.where([[True] * 3 + [False] * 5, [True] * 8], y[:2], np.nan)).sample([1.0], 2)
    np.testing.assert_allclose(short, padded, rtol=1e-6)


def test_draws_at_many_close_points_are_smooth():
    x, y = rows(10, 2, 10)
    samples = fit(x, y).sample(np.linspace(0, 3, 200), 3)
    assert np.isfinite(samples).all()
    assert np.abs(np.diff(samples, axis=2)).max() < 0.5


def test_new_points_that_do_not_fit_are_named():
    fitted = fit(*rows(11, 3, 6, 2))
    for new, words in (
        (np.zeros((4, 3)), r"shape \(4, 3\); give \(m, 2\)"),
        ([0.5], r"shape \(1,\); give \(m, 2\)"),
        (np.zeros((2, 4, 2)), r"shape \(2, 4, 2\); give \(3, m, 2\)"),
        (np.zeros((1, 2)) * 1j, "x_new holds complex128; give real numbers"),
        ([["a", "b"]], "x_new holds <U1; give real numbers"),
    ):
        for ask in (fitted.predict, fitted.sample):
            with pytest.raises(InputError, match=words):
                ask(new)


@pytest.mark.parametrize("mean", ["zero", "constant"])
def test_far_away_there_is_the_mean_and_the_whole_variance(mean: str):
    x, y = rows(12, 4, 10)
    fitted = fit(x, y, mean=mean)
    predicted, variance = fitted.predict([1e6])
    np.testing.assert_allclose(predicted[:, 0], fitted.params.get("mean_0", np.zeros(4)), atol=1e-12)
    np.testing.assert_allclose(variance[:, 0], fitted.params["variance"], rtol=1e-9)
