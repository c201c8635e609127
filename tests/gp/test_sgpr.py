"""`gp.fit(approximation="sgpr")` as a user calls it, beside GPyTorch's."""

import importlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from brimful import ConfigError, InputError, gp
from brimful.gp.data.sources import read
from brimful.gp.fit import model_for
from brimful.gp.model.sgpr import choose_inducing
from brimful.gp.options import FitOptions

from .helpers.small import fit, rows

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it uses what torch has deprecated
    gpytorch: Any = importlib.import_module("gpytorch")


def test_a_fit_is_near_the_exact_one_and_its_bound_below():
    x, y = rows(1, 6, 120)
    exact, sparse = fit(x, y, priors=None), fit(x, y, priors=None, approximation="sgpr", inducing=30)
    assert sparse.converged.all()
    assert (sparse.lml_lower_bound <= -exact.nlml + 1e-3).all()
    assert np.median(-exact.nlml - sparse.lml_lower_bound) < 0.5
    at = np.linspace(0.2, 2.8, 15)
    mean, variance = sparse.predict(at)
    wanted, _ = exact.predict(at)
    assert np.abs(mean - wanted).max() < 0.2
    assert (variance > 0).all()
    assert "lml_lower_bound" in sparse.table().column_names
    assert "nlml" not in sparse.table().column_names
    with pytest.raises(InputError, match=r"fit\.lml_lower_bound"):
        _ = sparse.nlml
    with pytest.raises(InputError, match="this fit is exact"):
        _ = exact.lml_lower_bound


def test_more_inducing_points_than_points_are_the_exact_fit():
    x, y = rows(2, 4, 20)
    exact, sparse = fit(x, y), fit(x, y, approximation="sgpr")
    np.testing.assert_allclose(sparse.lml_lower_bound, -exact.nlml, atol=2e-3)


def test_a_store_predicts_as_the_fit_did(tmp_path: Path):
    x, y = rows(3, 5, 40)
    y[2, 30:] = np.nan
    fitted = fit(x, y, approximation="sgpr", inducing=9, out=tmp_path / "models")
    loaded = gp.load(tmp_path / "models", device="cpu")
    np.testing.assert_allclose(loaded.lml_lower_bound, fitted.lml_lower_bound)
    for ours, wanted in ((loaded.predict([0.5, 5.0]), fitted.predict([0.5, 5.0])), (loaded.loo(), fitted.loo())):
        np.testing.assert_allclose(np.stack(ours), np.stack(wanted), rtol=1e-6, atol=1e-9)
    assert "lower bound" in str(loaded)
    assert loaded.summary()["mean_LML_lower_bound"] == pytest.approx(float(fitted.lml_lower_bound.mean()))
    assert gp.report(loaded).pictures["gp"]() is not None


def test_a_kernel_of_ones_own_is_refused():
    kernel = gp.custom(lambda a, b, params: params["v"] * torch.exp(-((a - b.T) ** 2)), v=1.0)
    with pytest.raises(ConfigError, match="needs a kernel"):
        fit(*rows(1, 2, 9), kernel=kernel, approximation="sgpr")


def test_inducing_points_of_an_exact_fit_are_refused():
    with pytest.raises(ConfigError, match="inducing is 20 and nothing is approximated"):
        fit(*rows(1, 2, 9), inducing=20)


@pytest.mark.soak
def test_the_bound_is_gpytorchs():
    x, y = rows(7, 3, 60)
    fitted = fit(x, y, approximation="sgpr", inducing=10)
    data = read(x, y, None, None, None)
    model = model_for(data, FitOptions(approximation="sgpr", inducing=10))
    tree = data.items.load(0, 3).tree
    assert isinstance(tree, dict)
    tasks, _, _ = model.standardized(tree)
    index = choose_inducing(tasks, 10).index_TM
    for task in range(3):
        params = {name: float(value[task]) for name, value in fitted.params.items()}
        at, values = torch.from_numpy(x[task]), torch.from_numpy(y[task])
        theirs = _peer(at, values, at[index[task]].clone(), params)
        assert fitted.lml_lower_bound[task] == pytest.approx(theirs, abs=0.01)


def _peer(x: torch.Tensor, y: torch.Tensor, inducing: torch.Tensor, params: dict[str, float]) -> float:
    """The bound of GPyTorch's SGPR."""
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=gpytorch.constraints.GreaterThan(1e-12))

    class Sparse(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
            self.covar_module = gpytorch.kernels.InducingPointKernel(base, inducing, likelihood)

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Sparse().double()
    with torch.no_grad(), gpytorch.settings.cholesky_jitter(double_value=1e-9):
        model.covar_module.base_kernel.outputscale = params["variance"]
        model.covar_module.base_kernel.base_kernel.lengthscale = params["lengthscale"]
        likelihood.noise = params["noise"]
        model.mean_module.constant.fill_(params["mean_0"])
        model.train()
        objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        return objective(model(x), y).item() * len(y)
