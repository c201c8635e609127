"""The term's own backward pass is that of autograd."""

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from brimful.wpo import ScoreModel
from brimful.wpo.model.fold_term import MixtureTerm, TriangularMixtureTerm

from ..helpers.oracle import assert_near, make_model, make_samples


def autograd(term: MixtureTerm, c: Tensor, x: Tensor, grad_logit: Tensor, grad_value: Tensor) -> Any:
    """Gradients by autograd of the plain form: of the parameters, the centers and the samples."""
    c, x = c.clone().requires_grad_(), x.clone().requires_grad_()
    logit, value = term(c, x)
    total = (logit * grad_logit).sum() + (value * grad_value).sum()
    return logit, value, torch.autograd.grad(total, [*term.parameters(), c, x])


@settings(max_examples=25)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 7), st.integers(0, 99))
def test_the_fused_backward_pass_is_autograds(k: int, B: int, d: int, seed: int):
    model = make_model(k, d, seed=seed)
    term, c, x = model.term, model.standardized_Kd, make_samples(B, d, seed)
    assert isinstance(term, TriangularMixtureTerm)
    generator = torch.Generator().manual_seed(seed)
    grad_logit = torch.randn(B, k, generator=generator, dtype=torch.float64)
    grad_value = torch.randn(B, k, d + 1, generator=generator, dtype=torch.float64)
    logit, value, wanted = autograd(term, c, x, grad_logit, grad_value)
    grads: dict[Tensor, Tensor] = {each: torch.ones_like(each) for each in term.parameters()}
    with torch.no_grad():
        *both, vjp_fn = term.vjp(c.clone().requires_grad_(), x.clone().requires_grad_(), grads)
        inputs = vjp_fn(grad_logit.clone(), grad_value.clone())
        quick = term(c, x)
    assert_near(both, (logit, value), 1e-12)
    assert_near(quick, (logit, value), 1e-12)
    assert_near([each - 1 for each in grads.values()], wanted[:-2], 1e-10)
    assert_near(inputs, wanted[-2:], 1e-10)


def test_a_parameter_that_is_not_trained_is_left_alone():
    model = make_model(3, 2)
    term, x = model.term, make_samples(4, 2)
    assert isinstance(term, TriangularMixtureTerm)
    grad_logit, grad_value = torch.ones(4, 3, dtype=torch.float64), torch.ones(4, 3, 3, dtype=torch.float64)
    _, _, wanted = autograd(term, model.standardized_Kd, x, grad_logit, grad_value)
    parameters = list(term.parameters())
    for left in parameters:
        grads: dict[Tensor, Tensor] = {each: torch.zeros_like(each) for each in parameters if each is not left}
        with torch.no_grad():
            _, _, vjp_fn = term.vjp(model.standardized_Kd, x, grads)
            assert vjp_fn(grad_logit.clone(), grad_value.clone()) == (None, None)
        there = [gradient for each, gradient in zip(parameters, wanted, strict=False) if each is not left]
        assert_near(grads.values(), there, 1e-10)


class Allocated(TorchDispatchMode):
    """Records every new storage of some size or more, by the operation that allocated it."""

    def __init__(self, size: int, known: list[Tensor]) -> None:
        super().__init__()
        self.size, self.operations = size, list[str]()
        self._known = {each.untyped_storage().data_ptr(): each for each in known}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for each in found if isinstance(found, tuple | list) else (found,):
            if not isinstance(each, Tensor) or each.untyped_storage().nbytes() < self.size:
                continue
            address = each.untyped_storage().data_ptr()
            if address not in self._known:
                self._known[address] = each  # kept alive, so that no other tensor gets its address
                self.operations.append(str(func))
        return found


def test_nothing_as_large_as_the_last_layer_is_made_beside_its_gradient():
    model = ScoreModel(torch.randn(12, 60, generator=torch.Generator().manual_seed(0)), hidden=64, depth=2)
    weight = model.term.network.last.weight
    x = torch.randn(5, 60)
    model.loss(x, strategy="chunked", chunk_size=3)
    with Allocated(weight.nbytes, list(model.parameters())) as seen:
        model.loss(x, strategy="chunked", chunk_size=3).backward()
    assert len(seen.operations) == 1 and "zeros_like" in seen.operations[0]
    assert weight.grad is not None and weight.grad.shape == weight.shape
