"""What the tests of `fold` share: terms, whole computations to hold them to, and data."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import brimful


class Bumps(nn.Module):
    """A term with a network: bumps around the components, of a width that the network learns."""

    def __init__(self, width: int = 3, values: int = 2, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        before = torch.get_rng_state()
        torch.manual_seed(1)
        self.inner = nn.Linear(width, 4, dtype=dtype)
        self.outer = nn.Linear(4, values + 1, dtype=dtype)
        torch.set_rng_state(before)

    def forward(self, chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        r_Bkd = x[:, None] - chunk
        out = self.outer(torch.tanh(self.inner(r_Bkd)))
        return out[..., 0] - r_Bkd.square().sum(-1), out[..., 1:]


class Fused:
    """The same sort of term with its own backward pass: logit = -|x - c|^2 / 2 * s, value = s (x - c)."""

    def __init__(self, scale: Tensor) -> None:
        self.scale = scale
        self.calls: list[tuple[int, int]] = []
        self.buffers: set[int] = set()

    def parameters(self) -> list[Tensor]:
        return [self.scale]

    def __call__(self, chunk: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        r_Bkd = x[:, None] - chunk
        return -0.5 * self.scale * r_Bkd.square().sum(-1), self.scale * r_Bkd

    def vjp(self, chunk: Tensor, x: Tensor, grads: dict[Tensor, Tensor]) -> tuple[Tensor, Tensor, Any]:
        assert not torch.is_grad_enabled()
        self.calls.append((len(chunk), len(x)))
        r_Bkd = x[:, None] - chunk
        logit, value = self(chunk, x)

        def backward(grad_logit: Tensor, grad_value: Tensor) -> tuple[Tensor | None, Tensor | None]:
            grad_r = grad_value * self.scale - self.scale * grad_logit[..., None] * r_Bkd
            if self.scale in grads:
                more = (grad_value * r_Bkd).sum() - 0.5 * (grad_logit * r_Bkd.square().sum(-1)).sum()
                self.buffers.add(grads[self.scale].data_ptr())
                grads[self.scale].add_(more)
            return -grad_r.sum(0) if chunk.requires_grad else None, grad_r.sum(1) if x.requires_grad else None

        return logit, value, backward


class Full:
    """A term that runs out of memory above a size, as a device would."""

    def __init__(self, term: Callable[..., Any], most: int, backward: bool = True, forward: bool = True) -> None:
        self.term, self.limit, self.tried = term, most, []
        self.when = {True: backward, False: forward}

    def __call__(self, chunk: Any, x: Any) -> tuple[Tensor, Tensor]:
        logit, value = self.term(chunk, x)
        self.tried.append(tuple(logit.shape))
        if logit.numel() > self.limit and self.when[torch.is_grad_enabled()]:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate more")
        return logit, value


def points(components: int = 17, samples: int = 5, width: int = 3, dtype: torch.dtype = torch.float64) -> Any:
    chance = torch.Generator().manual_seed(3)
    return [
        torch.randn(count, width, generator=chance, dtype=dtype).requires_grad_() for count in (components, samples)
    ]


CENTERS = torch.randn(7, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def density(model: nn.Module, batch: dict[str, Tensor]) -> brimful.Weighted:
    """A loss that folds over centers: over all of them, or over each rank's share where there are several."""
    together = torch.distributed.is_initialized()
    first, step = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if together else (0, 1)
    lse, mean = brimful.fold(model, CENTERS[first::step], batch["x"], chunk_size=2, group=together or None)
    return brimful.Weighted((mean.square().sum(1) - lse).sum(), lse.new_tensor(float(len(lse))))


def loss(lse: Tensor, mean: Tensor) -> Tensor:
    """Something that depends on every entry, differently."""
    weight = torch.linspace(0.5, 1.5, max(1, mean.numel()), dtype=mean.dtype, device=mean.device)
    return torch.sin(lse).sum() + (mean.reshape(-1) * weight[: mean.numel()]).tanh().sum()


def gradients(
    term: Any, components: Any, x: Any, wanted: Sequence[Tensor], **options: Any
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """A fold's results, and the gradients of a loss of them."""
    lse, mean = brimful.fold(term, components, x, **options)
    found = torch.autograd.grad(loss(lse, mean), list(wanted), materialize_grads=True, allow_unused=True)
    return lse.detach(), mean.detach(), list(found)


def direct(term: Any, components: Any, x: Any, wanted: Sequence[Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The whole computation by torch's own operations."""
    logit, value = term(components, x)
    lse = torch.logsumexp(logit, 1)
    mean = (torch.softmax(logit, 1)[..., None] * value).sum(1)
    found = torch.autograd.grad(loss(lse, mean), list(wanted), materialize_grads=True, allow_unused=True)
    return lse.detach(), mean.detach(), list(found)


def same(one: Any, other: Any, rtol: float = 1e-9) -> None:
    """Equal results and gradients, relative to the largest entry of each."""
    for mine, theirs in zip((*one[:2], *one[2]), (*other[:2], *other[2]), strict=True):
        scale = max(1e-30, float(theirs.abs().max())) if theirs.numel() else 1.0
        torch.testing.assert_close(mine, theirs, rtol=rtol, atol=rtol * scale)
