"""Kernels defined by the user, fitted by autograd."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from brimful import ConfigError, Status, gp
from brimful.gp.batch_functions import GPModel
from brimful.gp.model.tasks import TaskStatus
from brimful.gp.optimize.adam import STEPS

from ..helpers.small import fit, one_thread, rows


def wave(x1: torch.Tensor, x2: torch.Tensor, params: dict[str, torch.Tensor]) -> torch.Tensor:
    apart = (x1[:, None, :] - x2[None, :, :]).square().sum(-1)
    return params["variance"] * torch.exp(-0.5 * apart / params["lengthscale"].square())


RBF = gp.custom(wave, variance=1.0, lengthscale=0.5)


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    with one_thread():
        yield


@pytest.mark.parametrize("mean", [pytest.param("zero", marks=pytest.mark.soak), "constant"])
def test_a_built_in_kernel_written_anew_reaches_the_same_likelihood(mean: str):
    x, y = rows(0, 3, 8)
    own = fit(x, y, kernel=RBF, priors=None, mean=mean)
    built = fit(x, y, kernel="rbf", priors=None, mean=mean)
    assert (own.nlml - built.nlml < 0.01).all()
    assert own.status.tolist() == [0] * 3
    assert own.method.startswith("Adam")


def test_any_function_of_torch_will_do():
    def with_cdist(x1: torch.Tensor, x2: torch.Tensor, params: dict[str, torch.Tensor]) -> torch.Tensor:
        return params["variance"] * torch.exp(-torch.cdist(x1 / params["lengthscale"], x2 / params["lengthscale"]))

    x, y = rows(9, 3, 10)
    own = fit(x, y, kernel=gp.custom(with_cdist, variance=1.0, lengthscale=0.5), priors=None, starts=2)
    assert own.status.tolist() == [0] * 3  # torch has no forward derivatives of cdist
    assert (own.nlml - fit(x, y, kernel="matern12", priors=None).nlml < 0.01).all()


@pytest.mark.parametrize("scale", [1e6, pytest.param(1e-3, marks=pytest.mark.soak)])
def test_the_units_of_the_targets_do_not_matter(scale: float):
    x, y = rows(10, 4, 10)
    plain = fit(x, y, kernel=RBF, priors=None, starts=2)
    scaled = fit(x, y * scale, kernel=gp.custom(wave, variance=scale**2, lengthscale=0.5), priors=None, starts=2)
    assert plain.status.tolist() == scaled.status.tolist() == [0] * 4
    np.testing.assert_allclose(scaled.nlml - 10 * np.log(scale), plain.nlml, atol=0.01)
    np.testing.assert_allclose(scaled.params["noise"], plain.params["noise"] * scale**2, rtol=0.1)


@pytest.mark.soak
def test_an_initial_value_that_is_far_off_is_not_the_end():
    x, y = rows(11, 5, 10)
    far = fit(x, y, kernel=gp.custom(wave, variance=1e-3, lengthscale=8.0), priors=None)
    assert (far.nlml - fit(x, y, kernel="rbf", priors=None).nlml < 0.1).mean() >= 0.8


@pytest.mark.soak
def test_a_task_stopped_where_there_is_no_likelihood_has_not_converged():
    def torn(x1: torch.Tensor, x2: torch.Tensor, params: dict[str, torch.Tensor]) -> torch.Tensor:
        return wave(x1, x2, params) * torch.where(params["lengthscale"] < 0.3, 1.0, torch.nan)

    x = np.linspace(0, 3, 15)
    y = np.sin(x)[None] + 0.05 * np.random.default_rng(0).normal(size=(3, 15))
    fitted = fit(x, y, kernel=gp.custom(torn, variance=1.0, lengthscale=0.2), priors=None)
    assert fitted.status.tolist() == [TaskStatus.LIMIT] * 3
    assert (fitted.params["lengthscale"] < 0.3).all()
    assert (fitted.params["lengthscale"] > 0.28).all()
    assert np.isfinite(fitted.nlml).all()


def test_a_task_against_a_bound_beyond_which_there_is_nothing_converges():
    def torn(x1: torch.Tensor, x2: torch.Tensor, params: dict[str, torch.Tensor]) -> torch.Tensor:
        return wave(x1, x2, params) * torch.where(params["lengthscale"] < 0.3 + 1e-9, 1.0, torch.nan)

    x = np.linspace(0, 3, 15)
    y = np.sin(x)[None] + 0.05 * np.random.default_rng(0).normal(size=(3, 15))
    bounds = {"lengthscale": (0.1, 0.3)}
    fitted = fit(x, y, kernel=gp.custom(torn, variance=1.0, lengthscale=0.2), priors=None, bounds=bounds)
    assert fitted.status.tolist() == [0] * 3
    np.testing.assert_allclose(fitted.params["lengthscale"], 0.3)


@pytest.mark.parametrize("batch", [1, None])
def test_a_batch_of_which_nothing_can_be_fitted(batch: int | None):
    fitted = fit(np.linspace(0, 1, 15), np.full((2, 15), 7.0), kernel=RBF, batch_size=batch)
    assert fitted.status.tolist() == [TaskStatus.FLAT] * 2
    mean, variance = fitted.predict([0.5])
    np.testing.assert_allclose(mean, [[7.0], [7.0]], rtol=1e-14)
    assert np.isnan(variance).all()


def test_tasks_that_cannot_be_fitted_predict_their_level():
    x, y = rows(12, 4, 8)
    y += 50
    y[1], y[2, 1:] = 7.0, np.nan
    fitted, built = (fit(x, y, kernel=kernel) for kernel in (RBF, "rbf"))
    assert fitted.status.tolist() == built.status.tolist() == [0, TaskStatus.FLAT, TaskStatus.FEW, 0]
    for mine, theirs in zip(fitted.predict([0.5, 9.0]), built.predict([0.5, 9.0]), strict=True):
        np.testing.assert_allclose(mine[1:3], theirs[1:3])
    np.testing.assert_allclose(fitted.params["mean_0"][1:3], [7.0, y[2, 0]])


def test_the_dimensions_of_the_inputs_are_known():
    assert GPModel(kernel=RBF, mean="linear", dimensions=2).regressors == 3
    assert GPModel(kernel=RBF).regressors == 1


def test_it_is_planned_as_what_it_is():
    model = GPModel(kernel=RBF)
    assert model.backend(torch.device("cpu"), 10) == "torch"
    assert [name for name, *_ in model.rejected(torch.device("cpu"), 1000)] == ["a grid of initial values"]


def test_its_predictions_are_those_of_the_built_in_kernel():
    x, y = rows(1, 4, 10)
    own = fit(x, y, kernel=RBF, priors=None)
    built = fit(x, y, kernel="rbf", priors=None)
    close = np.abs(own.nlml - built.nlml) < 0.01
    assert close.sum() >= 3
    for mine, theirs in zip(own.predict([0.5, 1.5]), built.predict([0.5, 1.5]), strict=True):
        np.testing.assert_allclose(mine[close], theirs[close], atol=0.05)


def test_shared_inputs_and_missing_points():
    x, y = rows(2, 2, 8)
    holes = np.where(np.arange(8) < 7, y, np.nan)
    fitted = fit(x[0], holes, kernel=RBF, starts=1)
    short = fit(x[0, :7], y[:, :7], kernel=RBF, starts=1)
    np.testing.assert_allclose(fitted.nlml, short.nlml, atol=1e-2)


@pytest.mark.parametrize("huge", [pytest.param(1e8, marks=pytest.mark.soak), np.inf])
def test_a_task_of_huge_values_does_not_spoil_the_others(huge: float):
    x, y = rows(3, 4, 8)
    y[2, 5] = huge
    fitted = fit(x, y, kernel=RBF, priors=None, starts=1, steps=30)
    others = [0, 1, 3]
    alone = fit(x[others], y[others], kernel=RBF, priors=None, starts=1, steps=30)
    np.testing.assert_allclose(fitted.nlml[others], alone.nlml, rtol=1e-5, atol=1e-5)
    assert fitted.status[others].tolist() == alone.status.tolist()
    if huge == np.inf:
        assert fitted.status[2] == TaskStatus.INVALID


def test_priors_and_bounds_hold():
    x, y = rows(4, 2, 8)
    bounded = fit(x, y, kernel=RBF, bounds={"lengthscale": (0.7, 0.8), "noise": (0.1, 10)}, starts=1)
    assert (bounded.params["lengthscale"] >= 0.7 - 1e-9).all()
    assert (bounded.params["lengthscale"] <= 0.8 + 1e-9).all()
    assert (bounded.params["noise"] >= 0.1 - 1e-9).all()
    narrow = fit(x, y, kernel=RBF, priors={"lengthscale": gp.LogNormal(3.0, 1e-3)}, starts=1)
    np.testing.assert_allclose(narrow.params["lengthscale"], 3.0, rtol=0.02)


def test_known_noise():
    x, y = rows(5, 5, 12)
    own, built = (fit(x, y, kernel=kernel, noise=0.05, priors=None) for kernel in (RBF, "rbf"))
    assert own.params["noise"].tolist() == [0.0] * 5
    assert (own.nlml - built.nlml < 0.05).sum() >= 4


def test_a_task_at_its_optimum_stops_before_the_others():
    x, y = rows(6, 4, 8)
    fitted = fit(x, y, kernel=RBF, starts=3)
    assert len(np.unique(fitted.iterations)) > 1
    assert fitted.iterations.max() <= 3 * (STEPS * 100 + 100)


def test_iterations_and_starts_are_the_most():
    x, y = rows(6, 4, 8)
    few = fit(x, y, kernel=RBF, steps=2, starts=1)
    assert few.iterations.max() <= STEPS * 2 + 2
    assert TaskStatus.LIMIT in few.status
    assert fit(x, y, kernel=RBF, steps=2, starts=4).iterations.min() > few.iterations.max()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: gp.custom(wave), "needs an initial value for each parameter"),
        (lambda: gp.custom(wave, variance=0.0), "the initial value of variance is 0.0; parameters are positive"),
        (lambda: gp.custom(wave, variance=np.inf), "the initial value of variance is inf"),
        (lambda: gp.custom(wave, variance="1"), "the initial value of variance is '1'"),  # pyright: ignore[reportArgumentType]
        (lambda: fit(*rows(0, 1, 5), kernel=wave), r"kernel is a function; give its name, or gp.custom\(function"),
        (lambda: fit(*rows(0, 1, 5), kernel=gp.custom(wave, noise=1.0)), "'noise'.*a name that the table keeps"),
        (lambda: fit(*rows(0, 1, 5), kernel=gp.custom(wave, nlml=1.0)), "'nlml'.*a name that the table keeps"),
        (lambda: fit(*rows(0, 1, 5), kernel=RBF, bounds={"length": (1, 2)}), "bounds names 'length'; the parameters"),
    ],
)
def test_a_kernel_that_cannot_be_used_is_named(make: Any, words: str):
    with pytest.raises(ConfigError, match=words):
        make()


def test_a_kernel_that_raises_fails_its_tasks_and_says_why():
    def broken(x1: torch.Tensor, x2: torch.Tensor, params: dict[str, torch.Tensor]) -> torch.Tensor:
        raise ValueError("no such luck")

    fitted = fit(*rows(7, 2, 5), kernel=gp.custom(broken, a=1.0))
    assert fitted.status.tolist() == [Status.FAILED] * 2
    assert "no such luck" in fitted.messages[0]


def test_a_kernel_that_is_no_covariance_fails_its_tasks():
    def negative(x1: torch.Tensor, x2: torch.Tensor, params: dict[str, torch.Tensor]) -> torch.Tensor:
        return -1e6 * params["a"] * torch.ones(len(x1), len(x2), dtype=x1.dtype)

    x, y = rows(8, 2, 5)
    fitted = fit(x, y, kernel=gp.custom(negative, a=1.0), bounds={"a": (0.5, 2.0), "noise": (1e-6, 1.0)})
    assert fitted.status.tolist() == [Status.FAILED] * 2
    assert fitted.messages[0] == "the covariance is not positive definite at any initial value"
    assert np.isnan(fitted.nlml).all()
    np.testing.assert_allclose(fitted.predict([0.5])[0], y.mean(1, keepdims=True))


def test_a_linear_mean_has_a_coefficient_for_each_dimension():
    x, y = rows(0, 4, 12, 2)
    assert "mean_2" in fit(x, y, kernel=RBF, mean="linear", steps=1, starts=1).params
