"""A fold as one node of autograd's graph."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...core.base import pytree
from ...core.base.errors import InputError
from ...core.base.pytree import Tree
from .passes import Gradients, Passes, refill
from .sharded import Shards


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    passes: Passes | Shards
    components: Tree
    x: Tree


def folded(passes: Passes | Shards, components: Tree, x: Tree, called: bool = False) -> tuple[Tensor, Tensor]:
    """The log-sum-exp and the mean, differentiable where anything in them wants a gradient.

    Args:
        called: the backward pass is to be called even where nothing here wants a gradient: other ranks wait for it.
    """
    leaves = [leaf for tree in (components, x) for _, leaf in pytree.leaves(tree)]
    anchor = torch.zeros((), requires_grad=called)
    return _Fold.apply(_Work(passes, components, x), anchor, *leaves, *passes.held.tensors)  # pyright: ignore


class _Fold(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: _Work, anchor: Tensor, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        lse_B, mean_BV, kept = work.passes.forward(work.components, work.x)
        ctx.work, ctx.count = work, len(tensors)
        ctx.save_for_backward(*tensors, *kept)  # the tensors too: autograd sees whether one is changed in between
        ctx.set_materialize_grads(False)
        return lse_B, mean_BV

    @staticmethod
    def backward(ctx: Any, *bars: Tensor | None) -> tuple[Tensor | None, ...]:
        work: _Work = ctx.work
        tensors, kept = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        middle = len(pytree.leaves(work.components))
        components, x = refill(work.components, tensors), refill(work.x, tensors[middle:])
        with torch.no_grad():
            found = work.passes.backward(components, x, kept, bars, ctx.needs_input_grad[2:])
        return (None, None, *(_once(found) if torch.is_grad_enabled() else found))


def _once(gradients: Gradients) -> Gradients:
    """The gradients, as results that cannot be differentiated again: without this they would look like constants."""
    anchor = torch.zeros((), requires_grad=True)
    return [None if each is None else _Once.apply(each, anchor) for each in gradients]  # pyright: ignore


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, anchor: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *bars: Tensor) -> None:
        raise InputError(
            "a fold in chunks can be differentiated once, and this asks for its second derivative; use "
            "strategy='single', which keeps a plain graph"
        )
