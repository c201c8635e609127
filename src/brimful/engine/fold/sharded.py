"""A fold over several ranks: each has some of the components, and samples of its own.

All samples are gathered on every rank, folded over its own components, and merged: the maximum over ranks first, then
the sums, scaled to it. Backward, the gradients with respect to the results are gathered, each rank computes the
vector-Jacobian product of its components, and those with respect to the samples are summed over ranks. Gradients of
what the term captures are left as they are: summed over ranks, as data-parallel training does, they are those of the
sum of all ranks' losses.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ...core.base import pytree
from ...core.base.errors import ConfigError, InputError
from ...core.base.pytree import Tree
from ..distributed.collectives import all_gather, all_reduce
from ..distributed.process_group import open_launched
from .online_softmax import SoftmaxState, at_least_single
from .passes import Gradients, Passes, Saved, with_leaves
from .term import CapturedTensors


def resolve_group(group: Any) -> dist.ProcessGroup | None:
    """A process group as it was given, or the default one for True and "world"."""
    if group is None or group is False:
        return None
    if not dist.is_available() or (not dist.is_initialized() and not open_launched()):
        raise ConfigError(
            f"group is {group!r}, and this process is not one of several ranks; start it with torchrun, or call "
            "torch.distributed.init_process_group first, or leave group out"
        )
    resolved = dist.group.WORLD if group is True or group == "world" else group
    if not isinstance(resolved, dist.ProcessGroup) or dist.get_rank(resolved) < 0:
        raise ConfigError(
            f"group is {group!r}; give a torch.distributed process group that this rank is in, or True for all ranks"
        )
    return resolved


@dataclass(frozen=True, slots=True, eq=False)
class FoldRanks:
    """The ranks of a fold, and what each brings.

    Attributes:
        group: the ranks.
        sizes: each rank's number of samples.
        needed: for each tensor of x, whether its gradient is needed on some rank.
        differentiates: whether any gradient is needed on some rank.
    """

    group: dist.ProcessGroup
    sizes: tuple[int, ...]
    needed: tuple[bool, ...]
    differentiates: bool

    @classmethod
    def gather_sizes(
        cls, group: dist.ProcessGroup, components: Tree, x: Tree, captured: CapturedTensors, device: torch.device
    ) -> "FoldRanks":
        """Exchanges with the other ranks what each brings."""
        recording = torch.is_grad_enabled()
        needed = [recording and leaf.requires_grad for _, leaf in pytree.leaves(x)]
        own = any(leaf.requires_grad for _, leaf in pytree.leaves(components)) or bool(captured.tensors)
        form = zlib.crc32(repr(pytree.spec(x)).encode())
        numbers = [form, pytree.rows(x), recording, (recording and own) or any(needed)]
        forms, sizes, recordings, wants = zip(*_gather_numbers(group, device, numbers), strict=True)
        if len(set(forms)) > 1:
            raise InputError(
                f"the ranks' x differ in form; it is {pytree.spec(x)} on this one. Give every rank tensors of the same "
                "names, dtypes and shapes, the number of samples apart"
            )
        if any(wants) and not all(recordings):
            raise InputError(
                "some ranks fold under torch.no_grad() and others do not; all take part in the backward pass"
            )
        flags = _gather_numbers(group, device, needed)
        return cls(group, sizes, tuple(any(column) for column in zip(*flags, strict=True)), any(wants))

    @property
    def samples(self) -> int:
        """Of all ranks."""
        return sum(self.sizes)

    @property
    def own(self) -> slice:
        """The rows of this rank's samples among those of all."""
        rank = dist.get_rank(self.group)
        first = sum(self.sizes[:rank])
        return slice(first, first + self.sizes[rank])

    def all_gather(self, own: Tensor) -> Tensor:
        """The rows of all ranks, one rank after the other; padded on the way, since they differ in number."""
        row, most = own.shape[1:], max(self.sizes)
        if not most or not row.numel():
            return own.detach().new_empty(self.samples, *row)
        width = row.numel() * own.element_size()
        sent = torch.zeros(most * width, dtype=torch.uint8, device=own.device)
        sent[: len(own) * width] = own.detach().contiguous().reshape(-1).view(torch.uint8)
        received = [torch.empty_like(sent) for _ in self.sizes]
        all_gather(received, sent, self.group)
        parts = [part[: size * width] for part, size in zip(received, self.sizes, strict=True)]
        return torch.cat(parts).view(own.dtype).reshape(self.samples, *row)

    def merge(self, state: SoftmaxState) -> None:
        """Makes of every rank's state that of all components."""
        top_B = state.m_B.clone()
        all_reduce(top_B, dist.ReduceOp.MAX, self.group)
        state.rescale(top_B)  # a NaN that the maximum passed over is in the sums now
        sums = torch.cat((state.Z_B[:, None], state.S_BV), 1)
        all_reduce(sums, group=self.group)
        state.Z_B.copy_(sums[:, 0])
        state.S_BV.copy_(sums[:, 1:])


def _gather_numbers(group: dist.ProcessGroup, device: torch.device, numbers: Sequence[int]) -> list[list[int]]:
    sent = torch.tensor([int(number) for number in numbers], dtype=torch.int64, device=device)
    received = [torch.empty_like(sent) for _ in range(dist.get_world_size(group))]
    all_gather(received, sent, group)
    return [tensor.tolist() for tensor in received]


@dataclass(slots=True, eq=False)
class ShardedPasses(Passes):
    """The passes of a fold whose components are spread over ranks; each rank's own are a fold of all samples."""

    ranks: FoldRanks = field(kw_only=True)

    @property
    def twice_differentiable(self) -> bool:
        """Other ranks would have to differentiate again at the same time."""
        return False

    def forward(self, components: Tree, x: Tree) -> tuple[Tensor, Tensor, torch.dtype, Saved]:
        """The log-sum-exp and the mean of this rank's samples over the components of all ranks."""
        gathered = pytree.apply(x, self.ranks.all_gather)
        state = self.state(components, gathered)
        values = _gather_numbers(self.ranks.group, self.device, [state.S_BV.shape[1], state.dtype.itemsize])
        if any(other != values[0] for other in values):
            widths = ", ".join(f"{width} of {8 * size} bits" for width, size in values)
            raise InputError(f"the values of the ranks' terms differ in width: {widths}. Give every rank the same term")
        self.ranks.merge(state)
        lse_B, mean_BV = state.result()
        own = self.ranks.own
        saved = (lse_B, mean_BV, *(leaf for _, leaf in pytree.leaves(gathered)))
        return lse_B[own].clone(), mean_BV[own].clone(), state.dtype, saved

    def backward(
        self, components: Tree, x: Tree, results: Gradients, saved: Saved, grads: Gradients, needed: Sequence[bool]
    ) -> Gradients:
        """This rank's gradients: of its components, of its samples by all ranks' components, of what its term
        captures."""
        lse_B, mean_BV, *gathered = saved
        own = self.ranks.own
        all_grads = [
            self.ranks.all_gather(torch.zeros_like(result[own]) if grad is None else grad.to(lse_B.dtype))
            for grad, result in zip(grads, (lse_B, mean_BV), strict=True)
        ]
        first = len(pytree.leaves(components))
        last = first + len(gathered)
        on_any_rank = [*needed[:first], *self.ranks.needed, *needed[last:]]
        values = (lse_B, mean_BV, *all_grads)
        gradients = list(self.gradients(components, with_leaves(x, gathered), values, on_any_rank))
        for index in range(first, last):
            gradient = gradients[index]
            if gradient is not None:
                total = gradient.to(at_least_single(gradient.dtype)).contiguous()
                all_reduce(total, group=self.ranks.group)
                gradients[index] = total[own].to(gradient.dtype) if needed[index] else None
        return gradients
