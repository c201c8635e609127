"""Second derivatives of a score model: those of the materialized mixture, in every strategy."""

from typing import Any

import pytest
import torch
from torch import Tensor

from brimful import wpo
from brimful.wpo.model.squared_norm import squared_norm

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    # torch's own, when it first differentiates in forward mode
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),
]
WAYS = {"single": "auto", "chunked": 2, "gradient_accumulation": 4}


def mixture(factor: str, strategy: str = "single") -> tuple[wpo.ScoreModel, Tensor]:
    """A model whose precisions differ from center to center, and rows, one of them a center."""
    rng = torch.Generator().manual_seed(0)
    centers = torch.randn(9, 2, dtype=torch.float64, generator=rng)
    model = wpo.ScoreModel(centers, hidden=4, depth=2, factor=factor, rank=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, dtype=torch.float64, generator=rng), alpha=0.3)
    model.strategy, model.chunk_size = strategy, WAYS[strategy]
    return model, torch.cat((torch.randn(3, 2, dtype=torch.float64, generator=rng), centers[:1]))


def precisions(model: wpo.ScoreModel, noise: float) -> Tensor:
    """Every precision as a matrix, in the units of the data."""
    out = model.factor.constrain(model.term.network(model.standardized_Kd))
    identity = torch.eye(2, dtype=torch.float64).expand(len(out), 2, 2)
    _, columns, _ = model.factor.evaluate(out, identity)
    scale = model.scale_d
    return torch.linalg.inv(torch.linalg.inv(columns / scale / scale[:, None]) + noise * identity)


def log_prob(model: wpo.ScoreModel, x: Tensor, t: float) -> Tensor:
    P = precisions(model, t)
    return torch.distributions.MixtureSameFamily(
        torch.distributions.Categorical(torch.ones(len(P), dtype=torch.float64)),
        torch.distributions.MultivariateNormal(model.centers, precision_matrix=P),
    ).log_prob(x)


def loss(model: wpo.ScoreModel, x: Tensor) -> Tensor:
    """2 tr(grad s) + |s|^2 by its definition, with a graph. In the units of the data."""
    (score,) = torch.autograd.grad(log_prob(model, x, 0.0).sum(), x, create_graph=True)
    rows = [torch.autograd.grad(score[:, axis].sum(), x, create_graph=True)[0][:, axis] for axis in range(2)]
    return (2 * sum(rows, start=x.new_zeros(())) + score.square().sum(1)).sum()


@pytest.mark.parametrize("strategy", WAYS)
@pytest.mark.parametrize("factor", ["triangle", "lowrank"])
@pytest.mark.parametrize("t", [0.0, 0.3])
def test_the_hessian_of_the_density(factor: str, strategy: str, t: float):
    model, x = mixture(factor, strategy)
    expected: Any = torch.autograd.functional.hessian(lambda x: log_prob(model, x, t).sum(), x)
    assert expected.abs().max() > 0.1

    def total(x: Tensor) -> Tensor:
        return model.log_prob(x, t).sum()

    for hessian in (torch.autograd.functional.hessian(total, x), torch.func.hessian(total)(x)):
        torch.testing.assert_close(hessian, expected, rtol=1e-8, atol=1e-9)
    x = x.requires_grad_()
    jacobian = [torch.autograd.grad(model.score(x, t)[:, axis].sum(), x)[0] for axis in range(2)]
    diagonal = torch.einsum("bibj->bij", expected)
    torch.testing.assert_close(torch.stack(jacobian, 1), diagonal, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("strategy", WAYS)
@pytest.mark.parametrize("factor", ["triangle", "lowrank"])
def test_the_second_derivative_of_the_loss(factor: str, strategy: str):
    model, x = mixture(factor, strategy)
    model = wpo.ScoreModel(model.centers, hidden=4, depth=2, factor=factor, rank=1, scale=1.0)
    model.strategy, model.chunk_size = strategy, WAYS[strategy]
    x = x.requires_grad_()
    wanted = [x, *model.parameters()]
    found = []
    for total in (loss(model, x), model.losses(x).sum()):
        (gradient,) = torch.autograd.grad(total, x, create_graph=True)
        found.append(torch.autograd.grad(gradient.square().sum(), wanted))
    for expected, one in zip(*found, strict=True):
        torch.testing.assert_close(one, expected, rtol=1e-7, atol=1e-8 * float(expected.abs().max()))


def test_models_side_by_side_by_functional_call_and_vmap():
    model, x = mixture("triangle", "chunked")
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    scaled = {name: torch.stack((value, 0.5 * value)) for name, value in parameters.items()}

    def total(parameters: dict[str, Any]) -> Tensor:
        return torch.func.functional_call(model, parameters, (x,)).sum()

    both = torch.vmap(torch.func.grad(total))(scaled)
    expected = torch.autograd.grad(model.log_prob(x).sum(), list(model.parameters()))
    for one, two in zip(both.values(), expected, strict=True):
        torch.testing.assert_close(one[0], two, rtol=1e-9, atol=1e-12)
        assert not torch.equal(one[0], one[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 5), (4, 1), (2, 3, 300)])
def test_a_squared_norm(dtype: torch.dtype, shape: tuple[int, ...]):
    """To the bit that of torch's norm, once; and its second derivative at 0 is not 0."""
    rng = torch.Generator().manual_seed(0)
    vectors, grad = (torch.randn(size, dtype=dtype, generator=rng) for size in (shape, shape[:-1]))
    vectors[0] = 0
    vectors.requires_grad_()
    pair = squared_norm(vectors), torch.linalg.vector_norm(vectors, dim=-1).square()
    assert torch.equal(*pair)
    assert torch.equal(*(torch.autograd.grad(value, vectors, grad)[0] for value in pair))
    hessian = torch.autograd.functional.hessian(lambda row: squared_norm(row), vectors.detach().flatten(0, -2)[0])
    torch.testing.assert_close(hessian, 2 * torch.eye(shape[-1], dtype=dtype))
