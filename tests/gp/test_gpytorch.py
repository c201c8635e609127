"""Likelihood and predictions are GPyTorch's, at the parameters that we found."""

import importlib
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from .helpers.small import fit, rows

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it uses what torch has deprecated
    gpytorch: Any = importlib.import_module("gpytorch")


def peer(x: np.ndarray, y: np.ndarray, params: dict[str, float], nu: float | None) -> tuple[Any, Any]:
    """An exact GPyTorch process at given parameters, in float64."""
    base = gpytorch.kernels.RBFKernel() if nu is None else gpytorch.kernels.MaternKernel(nu=nu)

    class Exact(gpytorch.models.ExactGP):
        def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(base)

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=gpytorch.constraints.GreaterThan(1e-12))
    model = Exact(torch.from_numpy(x), torch.from_numpy(y), likelihood).double()
    with torch.no_grad():
        model.covar_module.outputscale = params["variance"]
        base.lengthscale = params["lengthscale"]
        model.likelihood.noise = params["noise"]
        model.mean_module.constant.fill_(params["mean_0"])
    return model, likelihood


@pytest.mark.parametrize(("kernel", "nu"), [("rbf", None), ("matern32", 1.5), ("matern52", 2.5)])
def test_likelihood_and_predictions_are_gpytorchs(kernel: str, nu: float | None):
    x, y = rows(5, 4, 14)
    fitted = fit(x, y, kernel=kernel)
    at = np.linspace(-0.5, 3.5, 11)
    mean, variance = fitted.predict(at)
    for task in range(4):
        params = {name: float(value[task]) for name, value in fitted.params.items()}
        model, likelihood = peer(x[task], y[task], params, nu)
        model.train()
        exact = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        nlml = -exact(model(*model.train_inputs), model.train_targets).item() * y.shape[1]
        assert fitted.nlml[task] == pytest.approx(nlml, abs=1e-6)
        model.eval()
        with torch.no_grad():
            theirs = model(torch.from_numpy(at)[:, None])
        np.testing.assert_allclose(mean[task], theirs.mean.numpy(), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(variance[task], theirs.variance.numpy(), rtol=1e-5, atol=1e-7)
