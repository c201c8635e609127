"""Tasks laid out for kernels in which each lane has a task of its own: tasks innermost, points in blocks of 4."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..model.tasks import TaskBatch
from .blocks import LANES

_FEWEST = 1 << 12  # tasks worked on at a time: a warp for each part of a card
_FILLS = 8 * LANES.value  # the most, for each multiprocessor: the registers hold no more
_SHARE = 2  # of a batch, that is worked on at a time: a larger batch, too, is worth its memory
_SELDOM = 20  # the same where each task is evaluated but once or twice


def innermost(value_TND: Tensor, up: int) -> Tensor:
    """Dimensions by points by tasks, tasks innermost, filled up to a number of points. Not copied, where the memory is
    laid out so already; what fills up is then whatever lies there, and must be finite."""
    T, N, D = value_TND.shape
    wanted = (1, T, up * T)
    strides = zip((T, N, D), value_TND.stride(), wanted, strict=True)
    alike = all(size == 1 or have == want for size, have, want in strides)
    held = value_TND.untyped_storage().nbytes() // value_TND.element_size() - value_TND.storage_offset()
    if alike and value_TND.numel() and held >= D * up * T:
        return value_TND.as_strided((D, up, T), wanted[::-1])
    out_DNT = torch.zeros(D, up, T, dtype=value_TND.dtype, device=value_TND.device)
    out_DNT[:, :N] = value_TND.permute(2, 1, 0)
    return out_DNT


@dataclass(frozen=True, slots=True)
class TaskLayout:
    """Tasks as the kernel reads them: tasks innermost, points in blocks of 4.

    Attributes:
        x_DNT, y_NT: inputs, targets; of the inputs one column where all tasks share them.
        regressors: of the mean: ones, and the inputs where it is linear.
        known: the noise that is known, of points by tasks, -inf at a missing point; or, where none is known, for each
            block of points the bits of those that are there.
        last_T: how many blocks of points each task has.
        count_T: how many points.
        share: of the tasks, that is worked on at a time.
        scratch: where the kernel works, made when it first does.
    """

    x_DNT: Tensor
    y_NT: Tensor
    regressors: int
    known: Tensor
    last_T: Tensor
    count_T: Tensor
    share: int
    scratch: list[Tensor]

    def __len__(self) -> int:
        return len(self.last_T)

    @property
    def strides(self) -> tuple[int, int]:
        """How far apart in memory inputs are: from a task to the next, and from a point to the next."""
        return int(self.x_DNT.shape[2] == len(self)), self.x_DNT.shape[2]

    @property
    def blocks(self) -> int:
        """Blocks of a task's factor."""
        across = len(self.y_NT) // 4
        return across * (across + 1) // 2

    def select(self, index: Tensor) -> "TaskLayout":
        """A subset of the tasks."""
        own, _ = self.strides
        x_DNT = self.x_DNT[:, :, index] if own else self.x_DNT
        return TaskLayout(
            x_DNT, self.y_NT[:, index], self.regressors, self.known[:, index], self.last_T[index], self.count_T[index],
            self.share, [],
        )  # fmt: skip

    def reserve(self, lanes: int, workspace: int) -> None:
        """Takes memory for a kernel to work in, `workspace` numbers per lane, if there is not enough."""
        device = self.y_NT.device
        fills = _FILLS * torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 0
        most = max(_FEWEST, min(-(-len(self) // self.share), fills))
        numbers = -(-min(lanes, most) // LANES.value) * LANES.value * workspace
        if not self.scratch or self.scratch[0].numel() < numbers:
            self.scratch.clear()  # before there is more
            self.scratch.append(torch.empty(numbers, dtype=torch.float64, device=device))

    def most(self, workspace: int) -> int:
        """The lanes that one launch can take, each with `workspace` numbers of the memory there is."""
        return LANES.value * max(1, self.scratch[0].numel() // (LANES.value * workspace))

    def at_once(self, lanes: int, workspace: int) -> int:
        """Of so many lanes, those that one launch takes: all launches alike, and as few as may be, for each takes a
        quarter of a millisecond before it counts how many lanes it has."""
        tiles, programs = -(-lanes // LANES.value), self.most(workspace) // LANES.value
        return LANES.value * max(1, -(-tiles // max(1, -(-tiles // programs))))


@dataclass(frozen=True, slots=True)
class ActiveTasks:
    """A list of tasks, or a part of one: its places from `begin` on.

    Of the whole list those at the first places are meant, as many as `count` says. That number lies on the device, so
    that a kernel can be launched before it is known here; the length is what is known, and no less. Every part but the
    last fills its programs.
    """

    index_L: Tensor
    count: Tensor
    begin: int = 0

    @classmethod
    def all_of(cls, index_L: Tensor) -> "ActiveTasks":
        """All of a list."""
        return cls(index_L, torch.full((1,), len(index_L), dtype=torch.int32, device=index_L.device))

    def __len__(self) -> int:
        return len(self.index_L)

    @property
    def positions(self) -> slice:
        return slice(self.begin, self.begin + len(self))

    def parts(self, layout: TaskLayout, workspace: int) -> "list[ActiveTasks]":
        """What one launch takes after the other, with `workspace` numbers per lane."""
        layout.reserve(len(self), workspace)
        parts = self.index_L.split(layout.at_once(len(self), workspace))
        return [ActiveTasks(part_L, self.count, number * len(parts[0])) for number, part_L in enumerate(parts)]


def _last(tasks: TaskBatch) -> Tensor:
    """How many blocks of points each task has."""
    N = tasks.y_TN.shape[1]
    if N == 0:
        return torch.ones(len(tasks), dtype=torch.int32, device=tasks.y_TN.device)
    numbers_N = torch.arange(1, N + 1, device=tasks.y_TN.device, dtype=torch.int32)
    return (((tasks.mask_TN * numbers_N).amax(1) + 3) // 4).clamp(min=1)


def _known(tasks: TaskBatch, up: int) -> Tensor:
    """As `TaskLayout.known` has it."""
    (T, N), device = tasks.mask_TN.shape, tasks.mask_TN.device
    if not tasks.has_known_noise:
        there_TN = torch.zeros(T, up, dtype=torch.uint8, device=device)
        there_TN[:, :N] = tasks.mask_TN
        bits_4 = torch.tensor([1, 2, 4, 8], dtype=torch.uint8, device=device)
        return (there_TN.view(T, up // 4, 4) * bits_4).sum(2, dtype=torch.int32).mT.contiguous()
    known_NT = torch.full((up, T), -math.inf, dtype=torch.float64, device=device)
    known_NT[:N].copy_(tasks.known_TN.mT).masked_fill_(~tasks.mask_TN.mT, -math.inf)
    return known_NT


def lay_out(tasks: TaskBatch, seldom: bool = False) -> TaskLayout:
    """Lays tasks out for the kernel. `seldom`: each will be evaluated once or twice."""
    x_TND = tasks.x_TND[:1] if tasks.x_TND.stride(0) == 0 else tasks.x_TND
    up = 4 * max(1, -(-tasks.y_TN.shape[1] // 4))
    return TaskLayout(
        innermost(x_TND, up),
        innermost(tasks.y_TN[:, :, None], up)[0],
        tasks.coefficients,
        _known(tasks, up),
        _last(tasks),
        tasks.mask_TN.sum(1).to(tasks.y_TN.dtype),
        _SELDOM if seldom else _SHARE,
        [],
    )
