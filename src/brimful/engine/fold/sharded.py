"""A fold over several ranks: each holds some of the components, and has samples of its own.

All samples are gathered on every rank, folded over its own components, and merged: the maximum over ranks first, then
the sums, scaled to it. Backward, the gradients with respect to the results are gathered, each rank pulls them through
its components, and those with respect to the samples are added up. Gradients of what the term holds are left as they
are: added up over ranks, as data-parallel training does, they are those of the sum of all ranks' losses.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ...core.base import pytree
from ...core.base.errors import ConfigError, InputError
from ...core.base.pytree import Tree
from ..distributed.collectives import together
from .online_softmax import State, at_least_single
from .passes import Gradients, Kept, Passes, refill
from .term import Held


def resolve(group: Any) -> dist.ProcessGroup | None:
    """A process group as it was given, or the default one for True and "world"."""
    if group is None or group is False:
        return None
    if not dist.is_available() or not dist.is_initialized():
        raise ConfigError(
            f"group is {group!r}, and this process is not one of several ranks; start it with torchrun, or call "
            "torch.distributed.init_process_group first, or leave group out"
        )
    found = dist.group.WORLD if group is True or group == "world" else group
    if not isinstance(found, dist.ProcessGroup) or dist.get_rank(found) < 0:
        raise ConfigError(
            f"group is {group!r}; give a torch.distributed process group that this rank is in, or True for all ranks"
        )
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Met:
    """What the ranks know of each other before they fold.

    Attributes:
        group: the ranks.
        device: where what they exchange lies.
        sizes: each rank's number of samples.
        wanted: for each tensor of x, whether its gradient is wanted on some rank.
        differentiates: whether anything wants a gradient on some rank.
    """

    group: dist.ProcessGroup
    device: torch.device
    sizes: tuple[int, ...]
    wanted: tuple[bool, ...]
    differentiates: bool

    @property
    def samples(self) -> int:
        """Of all ranks."""
        return sum(self.sizes)

    @property
    def mine(self) -> slice:
        """The rows of this rank's samples among those of all."""
        rank = dist.get_rank(self.group)
        first = sum(self.sizes[:rank])
        return slice(first, first + self.sizes[rank])

    def exchange(self, numbers: Sequence[int]) -> list[list[int]]:
        """Every rank's numbers."""
        return _exchange(self.group, self.device, numbers)

    def gather(self, mine: Tensor) -> Tensor:
        """The rows of all ranks, one rank after the other; padded on the way, since they differ in number."""
        row, most = mine.shape[1:], max(self.sizes)
        if not most or not row.numel():
            return mine.detach().new_empty(self.samples, *row)
        width = row.numel() * mine.element_size()
        sent = torch.zeros(most * width, dtype=torch.uint8, device=mine.device)
        sent[: len(mine) * width] = mine.detach().contiguous().reshape(-1).view(torch.uint8)
        received = [torch.empty_like(sent) for _ in self.sizes]
        with together():
            dist.all_gather(received, sent, group=self.group)
        parts = [part[: size * width] for part, size in zip(received, self.sizes, strict=True)]
        return torch.cat(parts).view(mine.dtype).reshape(self.samples, *row)

    def add_up(self, tensor: Tensor) -> None:
        """Sums over ranks, in place."""
        if tensor.numel():
            with together():
                dist.all_reduce(tensor, group=self.group)

    def merge(self, state: State) -> None:
        """Makes of every rank's state that of all components."""
        if not self.samples:
            return
        top_B = state.m_B.clone()
        with together():
            dist.all_reduce(top_B, dist.ReduceOp.MAX, group=self.group)
        state.rescale(top_B)  # a NaN that the maximum passed over is in the sums now
        both = torch.cat((state.Z_B[:, None], state.S_BV), 1)
        self.add_up(both)
        state.Z_B.copy_(both[:, 0])
        state.S_BV.copy_(both[:, 1:])


def meet(group: dist.ProcessGroup, components: Tree, x: Tree, held: Held, device: torch.device) -> Met:
    """Tells the other ranks what this one brings, and hears what they do."""
    leaves = [leaf for _, leaf in pytree.leaves(x)]
    recording = torch.is_grad_enabled()
    wanted = [recording and leaf.requires_grad for leaf in leaves]
    own = any(leaf.requires_grad for _, leaf in pytree.leaves(components)) or bool(held.tensors)
    form = zlib.crc32(repr(pytree.spec(x)).encode())
    told = _exchange(group, device, [form, pytree.rows(x), recording, (recording and own) or any(wanted)])
    if len({each[0] for each in told}) > 1:
        raise InputError(
            f"the ranks' x differ in form; it is {pytree.spec(x)} on this one. Give every rank tensors of the same "
            "names, dtypes and shapes, the number of samples apart"
        )
    differentiates = any(each[3] for each in told)
    if differentiates and not all(each[2] for each in told):
        raise InputError("some ranks fold under torch.no_grad() and others do not; all take part in the backward pass")
    flags = _exchange(group, device, [int(each) for each in wanted])
    return Met(
        group,
        device,
        tuple(each[1] for each in told),
        tuple(any(column) for column in zip(*flags, strict=True)),
        differentiates,
    )


def _exchange(group: dist.ProcessGroup, device: torch.device, numbers: Sequence[int]) -> list[list[int]]:
    sent = torch.tensor([int(each) for each in numbers], dtype=torch.int64, device=device)
    received = [torch.empty_like(sent) for _ in range(dist.get_world_size(group))]
    with together():
        dist.all_gather(received, sent, group=group)
    return [each.tolist() for each in received]


@dataclass(slots=True, eq=False)
class Shards:
    """The passes of a fold whose components are spread over ranks; each rank's own are a fold of all samples."""

    passes: Passes
    met: Met

    @property
    def held(self) -> Held:
        return self.passes.held

    def forward(self, components: Tree, x: Tree) -> tuple[Tensor, Tensor, Kept]:
        """The log-sum-exp and the mean of this rank's samples over the components of all ranks."""
        everyone = pytree.apply(x, self.met.gather)
        state = self.passes.state(components, everyone)
        self._same_values(state)
        self.met.merge(state)
        lse_B, mean_BV = state.result()
        mine = self.met.mine
        kept = (lse_B, mean_BV, *(leaf for _, leaf in pytree.leaves(everyone)))
        return lse_B[mine].clone().to(state.dtype), mean_BV[mine].clone().to(state.dtype), kept

    def _same_values(self, state: State) -> None:
        told = self.met.exchange([state.S_BV.shape[1], state.dtype.itemsize])
        if len({tuple(each) for each in told}) > 1:
            widths = ", ".join(f"{width} of {8 * size} bits" for width, size in told)
            raise InputError(f"the values of the ranks' terms differ in width: {widths}. Give every rank the same term")

    def backward(self, components: Tree, x: Tree, kept: Kept, bars: Gradients, needed: Sequence[bool]) -> Gradients:
        """This rank's gradients: of its components, of its samples by all ranks' components, of what its term holds."""
        lse_B, mean_BV, *gathered = kept
        everyone = refill(x, gathered)
        size = self.met.mine.stop - self.met.mine.start
        shapes = ((size,), (size, mean_BV.shape[1]))
        all_bars = [
            self.met.gather(lse_B.new_zeros(shape) if bar is None else bar.to(lse_B.dtype))
            for bar, shape in zip(bars, shapes, strict=True)
        ]
        first = len(pytree.leaves(components))
        last = first + len(gathered)
        widened = [*needed[:first], *self.met.wanted, *needed[last:]]
        found = list(self.passes.gradients(components, everyone, (lse_B, mean_BV, *all_bars), widened))
        for place in range(first, last):
            whole = found[place]
            if whole is not None:
                total = whole.to(at_least_single(whole.dtype)).contiguous()
                self.met.add_up(total)
                found[place] = total[self.met.mine].to(whole.dtype) if needed[place] else None
        return found
