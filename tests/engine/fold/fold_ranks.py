"""Folds on several ranks, for the tests."""

import os
import signal
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

import brimful

from .folding import Bumps, Full, Fused, loss


def samples_of(count: int, seed: int) -> Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def data(components: list[int], samples: list[int]) -> tuple[list[Tensor], list[Tensor]]:
    """Every rank's components and samples."""
    return list(samples_of(sum(components), 3).split(components)), list(samples_of(sum(samples), 4).split(samples))


def terms(kind: str) -> tuple[Any, list[Tensor]]:
    """A term, and what it holds."""
    if kind == "fused":
        scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
        return Fused(scale), [scale]
    inner = Bumps()
    if kind == "function":
        return lambda chunk, x: inner(chunk, x), list(inner.parameters())
    if kind == "full":
        return Full(inner, 6), list(inner.parameters())
    return inner, list(inner.parameters())


class Dying(nn.Module):
    """A term whose rank is killed in the backward pass, or in the forward pass."""

    def __init__(self, backward: bool) -> None:
        super().__init__()
        self.inner, self.backward = Bumps(), backward

    def forward(self, chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        if dist.get_rank() == 1 and len(x) > 1 and torch.is_grad_enabled() == self.backward:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.inner(chunk, x)


def fold(group: Any, order: dict[str, Any]) -> dict[str, Any]:
    """This rank's results and gradients."""
    rank = dist.get_rank(group)
    components, samples = (each[rank] for each in data(order["components"], order["samples"]))
    kind = order.get("kind", "module")
    term, captured = (Dying(kind == "dying backward"), []) if kind.startswith("dying") else terms(kind)
    c, x = (
        components.requires_grad_(),
        samples.requires_grad_(order.get("x_grad", True) and rank != order.get("frozen")),
    )
    if rank == order.get("nan"):
        with torch.no_grad():
            x[0, 0] = torch.nan
    if rank == order.get("other"):
        x = x.float()
    options = {name: order[name] for name in ("chunk_size", "strategy", "budget") if name in order}
    with torch.set_grad_enabled(rank != order.get("no_grad")):
        lse, mean = brimful.fold(term, c, x, group=group, **options)
    result: dict[str, Any] = {"lse": lse.detach(), "mean": mean.detach()}
    if "no_grad" in order:
        return result
    loss(lse, mean).backward()
    return result | {"c": c.grad, "x": x.grad, "captured": [tensor.grad for tensor in captured]}


def second_derivative(group: Any, order: dict[str, Any]) -> dict[str, str]:
    """What this rank is told when it asks for a second derivative, or transforms a fold over ranks."""
    c, x = samples_of(3, 3), samples_of(2, 4).requires_grad_()
    said = {}

    def total(x: Tensor) -> Tensor:
        return brimful.fold(Bumps(), c, x, chunk_size=2, group=group)[0].sum()

    (gradient,) = torch.autograd.grad(total(x), x, create_graph=True)
    for name, ask in {
        "again": lambda: gradient.sum().backward(),
        "hessian": lambda: torch.autograd.functional.hessian(total, x),
        "transformed": lambda: torch.func.grad(total)(x),
    }.items():
        try:
            ask()
        except brimful.InputError as error:
            said[name] = str(error)
    return said
