"""The model by its definition: every precision formed, every determinant and inverse computed, autograd for the rest.

Legend: K centers, B samples, d dimensions.
"""

import math
from typing import Any

import torch
from torch import Tensor

from brimful.wpo import ScoreModel
from brimful.wpo.model.packed_triangle import unpack


def make_model(K: int = 5, d: int = 3, *, seed: int = 0, perturbation: float = 0.5, **options: Any) -> ScoreModel:
    """A model in double precision whose precisions differ from center to center."""
    generator = torch.Generator().manual_seed(seed)
    centers = options.pop("centers", None)
    if centers is None:
        centers = 3 * torch.randn(K, d, generator=generator, dtype=torch.float64) + 1
    model = ScoreModel(centers, seed=seed, **{"hidden": 7, "depth": 2, **options})
    with torch.no_grad():
        for parameter in model.term.network.last.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter += perturbation * noise / d**0.5
    return model


def make_samples(B: int, d: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(B, d, generator=generator, dtype=torch.float64) + 1


def precisions(model: ScoreModel) -> Tensor:
    """P of every center, in the data's units, (K, d, d)."""
    factor = model.factor.constrain(model.term.network(model.standardized_Kd))
    if model.config.factor == "triangle":
        L = unpack(factor, model.d)
        P = L @ L.mT
    else:
        D, F = factor[:, : model.d], factor[:, model.d :].unflatten(1, (model.d, -1))
        P = torch.diag_embed(D**2) + F @ F.mT
    return P / (model.scale_d[:, None] * model.scale_d)


def log_prob(model: ScoreModel, x: Tensor, t: float = 0.0) -> Tensor:
    """The density by torch's own normal distribution."""
    covariance = torch.linalg.inv(precisions(model))
    covariance = covariance + model.config.beta**2 * t * torch.eye(model.d, dtype=covariance.dtype)
    normal = torch.distributions.MultivariateNormal(model.centers, covariance, validate_args=False)
    return normal.log_prob(x[:, None]).logsumexp(1) - math.log(len(model.centers))


def losses(model: ScoreModel, x: Tensor) -> Tensor:
    """The materialized computation: P r, its square and the trace, one softmax over all centers."""
    P = precisions(model)
    r = x[:, None] - model.centers
    u = torch.einsum("kij,bkj->bki", P, r)
    w = (0.5 * torch.logdet(P) - 0.5 * (r * u).sum(-1)).softmax(1)
    u = u * model.scale_d  # from here on in standardized units
    s = -(w[..., None] * u).sum(1)
    trace = (P.diagonal(dim1=-2, dim2=-1) * model.scale_d**2).sum(-1)
    return 2 * (w * (u.square().sum(-1) - trace)).sum(1) - s.square().sum(-1)


def losses_by_definition(model: ScoreModel, x: Tensor) -> Tensor:
    """2 tr(grad s) + |s|^2 in standardized units, s and its divergence by autograd of the log-density."""
    found = []
    for row in x:
        row = row.detach().requires_grad_()
        s = torch.autograd.grad(log_prob(model, row[None]).sum(), row, create_graph=True)[0]
        divergence = torch.stack([torch.autograd.grad(s[i], row, retain_graph=True)[0][i] for i in range(len(row))])
        found.append(((2 * divergence + s.square()) * model.scale_d**2).sum())
    return torch.stack(found).detach()


def gradients(model: ScoreModel, value: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(value, list(model.parameters())))


def assert_near(found: Any, wanted: Any, relative: float = 1e-9) -> None:
    """Relative to the largest entry: an entry that is a difference of large ones has their rounding errors."""
    for one, other in zip(found, wanted, strict=True):
        one, other = one.detach(), other.detach()
        scale = max(1e-300, float(other.abs().max()))
        assert float((one - other).abs().max()) <= relative * scale


def pack(matrix_Kdd: Tensor) -> Tensor:
    """The inverse of `packed_triangle.unpack`."""
    rows, columns = torch.tril_indices(matrix_Kdd.shape[-1], matrix_Kdd.shape[-1]).unbind()
    return matrix_Kdd[:, rows, columns]
