"""The squared norm of vectors: as accurate as the norm itself, and with the right second derivative at 0."""

from typing import Any

import torch
from torch import Tensor


def squared_norm(vectors: Tensor) -> Tensor:
    """|v|^2 along the last axis."""
    return _SquaredNorm.apply(vectors)  # pyright: ignore[reportReturnType]


class _SquaredNorm(torch.autograd.Function):
    """The square of `vector_norm`, which sums accurately, but whose second derivative at 0 autograd takes for 0."""

    generate_vmap_rule = True

    @staticmethod
    def forward(vectors: Tensor) -> Tensor:
        return torch.linalg.vector_norm(vectors, dim=-1).square()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (vectors,), (grad,) = ctx.saved_tensors, grads
        if torch.is_grad_enabled():
            return 2 * grad[..., None] * vectors
        norm = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)  # the two operations' derivative, to the bit
        return (vectors / norm).masked_fill(norm == 0, 0) * (grad[..., None] * (2 * norm))

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        (vectors,), (tangent,) = ctx.saved_tensors, tangents
        return 2 * (vectors * tangent).sum(-1)
