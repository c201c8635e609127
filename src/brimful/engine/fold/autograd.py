"""A fold as one node of autograd's graph."""

from typing import Any

import torch
from torch import Tensor

from ...core.base import pytree
from ...core.base.errors import InputError
from ...core.base.pytree import Tree
from .passes import Passes, with_leaves


def apply_fold(passes: Passes, components: Tree, x: Tree) -> tuple[Tensor, Tensor]:
    """The log-sum-exp and the mean, differentiable where anything in them requires a gradient."""
    leaves = [leaf for tree in (components, x) for _, leaf in pytree.leaves(tree)]
    anchor = torch.zeros((), requires_grad=passes.always_differentiates)
    return _Fold.apply((passes, components, x), anchor, *leaves, *passes.captured.tensors)  # pyright: ignore


class _Fold(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, fold: tuple[Passes, Tree, Tree], anchor: Tensor, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        passes, components, x = fold
        lse_B, mean_BV, saved = passes.forward(components, x)
        ctx.fold, ctx.count = fold, len(tensors)
        ctx.save_for_backward(*tensors, *saved)  # the tensors too: autograd sees whether one is changed in between
        ctx.set_materialize_grads(False)
        return lse_B, mean_BV

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        passes, components, x = ctx.fold
        tensors, saved = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        middle = len(pytree.leaves(components))
        components, x = with_leaves(components, tensors), with_leaves(x, tensors[middle:])
        with torch.no_grad():
            gradients = passes.backward(components, x, saved, grads, ctx.needs_input_grad[2:])
        if torch.is_grad_enabled():
            # As results that cannot be differentiated again: without this they would look like constants.
            anchor = torch.zeros((), requires_grad=True)
            gradients = [None if grad is None else _Once.apply(grad, anchor) for grad in gradients]  # pyright: ignore
        return (None, None, *gradients)  # pyright: ignore


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, anchor: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> None:
        raise InputError(
            "a fold in chunks can be differentiated once, and this asks for its second derivative; use "
            "strategy='single', which keeps a plain graph"
        )
