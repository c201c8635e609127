"""A fold as a node of autograd's graph, and its gradient as another, which can be differentiated in turn."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ...core.base import pytree
from ...core.base.errors import InputError
from ...core.base.pytree import Tree
from .derivatives import GradientSum, Sum
from .passes import Passes


def apply_fold(passes: Passes, components: Tree, x: Tree) -> tuple[Tensor, Tensor]:
    """The log-sum-exp and the mean as one node of autograd's graph, where anything in them requires a gradient."""
    leaves = [leaf for tree in (components, x) for _, leaf in pytree.leaves(tree)]
    anchor = torch.zeros((), requires_grad=passes.always_differentiates)
    tensors = (*leaves, *passes.captured.tensors)
    lse_B, mean_BV, dtype = _Fold.apply((passes, components, x), anchor, *tensors)  # pyright: ignore
    return lse_B.to(dtype), mean_BV.to(dtype)


def is_transformed() -> bool:
    """Whether a transform of `torch.func` (grad, vmap, jvp and so on) or forward-mode differentiation is in force."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def _check_not_batched(grads: Sequence[Any]) -> None:
    """Refuses the older kind of batched gradients, whose tensors know few operations."""
    is_batched: Any = torch._C._functorch.is_legacy_batchedtensor  # pyright: ignore[reportAttributeAccessIssue]
    if any(isinstance(grad, Tensor) and is_batched(grad) for grad in grads):
        raise InputError(
            "a fold in chunks cannot take batched gradients (vectorize=True, or is_grads_batched=True, of "
            "torch.autograd); use torch.func.jacrev or torch.vmap, or leave that option out"
        )


class _Fold(torch.autograd.Function):
    """The results in the dtype that sums are kept in, and that of the term."""

    @staticmethod
    def forward(
        ctx: Any, fold: tuple[Passes, Tree, Tree], anchor: Tensor, *tensors: Tensor
    ) -> tuple[Tensor, Tensor, torch.dtype]:
        passes, components, x = fold
        lse_B, mean_BV, dtype, saved = passes.forward(components, x)
        ctx.fold, ctx.count = fold, len(tensors)
        # The tensors too: autograd sees whether one is changed in between. The results lead back to this node.
        ctx.save_for_backward(*tensors, lse_B, mean_BV, *saved)
        ctx.set_materialize_grads(False)
        return lse_B, mean_BV, dtype

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        _check_not_batched(grads)
        passes, components, x = ctx.fold
        tensors, results = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count : ctx.count + 2]
        saved = ctx.saved_tensors[ctx.count + 2 :]
        needed = tuple(ctx.needs_input_grad[2:])
        gradient = GradientSum(passes, components, x, saved, needed)
        inputs = (*results, *grads[:2], *tensors)
        if torch.is_grad_enabled() or is_transformed():
            return (None, None, *TileSum.apply(gradient, *inputs))  # pyright: ignore
        return (None, None, *gradient.compute(inputs))


class TileSum(torch.autograd.Function):
    """A sum over all tiles, whose derivative is another one. Under `vmap` it is computed for one example after the
    other, so that memory stays that of one."""

    @staticmethod
    def forward(total: Sum, *inputs: Tensor | None) -> tuple[Tensor | None, ...]:
        return tuple(total.compute(inputs))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.sum = inputs[0]
        ctx.save_for_backward(*inputs[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        _check_not_batched(grads)
        inputs = ctx.saved_tensors
        derivative = ctx.sum.derivative(ctx.needs_input_grad[1:])
        return (None, *TileSum.apply(derivative, *inputs, *grads))  # pyright: ignore

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], total: Sum, *inputs: Tensor | None) -> tuple[Any, Any]:
        def example(index: int) -> list[Tensor | None]:
            return [
                value if value is None or dim is None else value.select(dim, index)
                for value, dim in zip(inputs, in_dims[1:], strict=True)
            ]

        results = [TileSum.apply(total, *example(index)) for index in range(info.batch_size)]
        stacked = tuple(None if column[0] is None else torch.stack(column) for column in zip(*results, strict=True))
        return stacked, tuple(None if column is None else 0 for column in stacked)
