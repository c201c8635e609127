"""The ranks that train one model together, and what they exchange."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ...core.base import foreach
from ...core.base.errors import InputError, WorkerError
from . import rank_store


def calls_in_lockstep(model: nn.Module, group: "Group") -> bool:
    """Whether the ranks hold parts of one model, which says so by `sharded = True`: its loss then talks to the other
    ranks, so that all must call it equally often."""
    return group.ranks > 1 and bool(getattr(model, "sharded", False))


@dataclass(frozen=True, slots=True)
class Group:
    """This process among the ranks; by default it is alone."""

    rank: int = 0
    ranks: int = 1
    device: torch.device = torch.device("cpu")
    _has_gradient: list[float] = field(default_factory=list, compare=False, repr=False)

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def reduce_gradients(self, parameters: list[nn.Parameter], total: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Adds up gradients, and a sum with its weight, over all ranks, in one buffer of each dtype. A parameter that
        got a gradient on some rank has one on all."""
        used = self._used(parameters)
        for parameter in used:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        for dtype in dict.fromkeys(parameter.dtype for parameter in used):
            gradients = [p.grad for p in used if p.dtype == dtype and p.grad is not None]
            flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
            all_reduce(flat)
            parts = flat.split([gradient.numel() for gradient in gradients])
            foreach.copy(gradients, [part.view_as(gradient) for part, gradient in zip(parts, gradients, strict=True)])
        both = torch.stack((total, weight.to(total)))
        all_reduce(both)
        return both[0], both[1]

    def _used(self, parameters: list[nn.Parameter]) -> list[nn.Parameter]:
        """Those that got a gradient on some rank. On CUDA asking would wait for the device, so there the answer to the
        first question holds for the run, and a gradient that comes later is refused: it would stay on its rank."""
        if self.device.type != "cuda" or not self._has_gradient:
            used = torch.tensor([float(parameter.grad is not None) for parameter in parameters], device=self.device)
            all_reduce(used)
            self._has_gradient[:] = used.tolist()
        flagged = list(zip(parameters, self._has_gradient, strict=True))
        if late := [parameter for parameter, flag in flagged if not flag and parameter.grad is not None]:
            raise InputError(
                f"{len(late)} parameter(s) got their first gradient after the first step (one has the shape "
                f"{tuple(late[0].shape)}). On several GPUs all that is trained must take part in the first step: "
                "add 0 * parameter.sum() to the loss, or set requires_grad_(False) on what is not trained"
            )
        return [parameter for parameter, flag in flagged if flag]

    def sum_over_ranks(self, values: list[float]) -> list[float]:
        """Sums of a few numbers over all ranks."""
        if self.ranks == 1:
            return values
        sent = torch.tensor(values, dtype=torch.float64, device=self.device)
        all_reduce(sent)
        return sent.tolist()

    def broadcast_bytes(self, content: bytes | None) -> bytes:
        """What the first rank has, on all of them."""
        if self.ranks == 1:
            return content or b""
        size = torch.tensor([len(content or b"")], device=self.device)
        _broadcast(size)
        if self.is_first and content:
            sent = torch.frombuffer(bytearray(content), dtype=torch.uint8).to(self.device)
        else:
            sent = torch.empty(int(size), dtype=torch.uint8, device=self.device)
        if len(sent):
            _broadcast(sent)
        return content or b"" if self.is_first else sent.cpu().numpy().tobytes()


@contextlib.contextmanager
def collective_errors() -> Iterator[None]:
    """Around a collective operation: says that another rank is gone."""
    try:
        yield
    except RuntimeError as error:
        reason = rank_store.failure() or f"another rank is gone or no longer answers ({str(error).splitlines()[0]})"
        raise WorkerError(
            f"{reason}. See what that rank printed; with out=, run the same command again to go on from the last "
            "checkpoint"
        ) from error


@collective_errors()
def all_reduce(tensor: Tensor, operation: Any = dist.ReduceOp.SUM, group: dist.ProcessGroup | None = None) -> None:
    """Sums, or other reductions, over ranks, in place."""
    if tensor.numel():
        dist.all_reduce(tensor, operation, group=group)


@collective_errors()
def all_gather(received: list[Tensor], sent: Tensor, group: dist.ProcessGroup | None = None) -> None:
    """Every rank's tensor, into tensors of the same shape."""
    dist.all_gather(received, sent, group=group)


@collective_errors()
def _broadcast(tensor: Tensor) -> None:
    dist.broadcast(tensor, 0)
