"""Tasks laid out for kernels in which each lane has a task of its own: tasks innermost, points in blocks of 4."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ._blocks import LANES
from .tasks import Tasks

_FEWEST, _MOST = 1 << 13, 1 << 16  # tasks worked on at a time: enough to fill a card, and no more than that takes
_SHARE = 6  # of a batch, that is worked on at a time: where memory is scarce, a larger batch is worth more


def innermost(each_TN: Tensor, up: int, fill: float = 0.0) -> Tensor:
    """Points by tasks, tasks innermost, filled up to a number of points."""
    out_NT = torch.full((up, len(each_TN)), fill, dtype=each_TN.dtype, device=each_TN.device)
    out_NT[: each_TN.shape[1]] = each_TN.mT
    return out_NT


@dataclass(frozen=True, slots=True)
class Laid:
    """Tasks as the kernel reads them: tasks innermost, points in blocks of 4.

    Attributes:
        x_DNT, y_NT: inputs, targets.
        regressors: of the mean: ones, and the inputs where it is linear.
        known_NT: the noise that is known, -inf at a missing point.
        last_T: how many blocks of points each task has.
        count_T: how many points.
        scratch: where the kernel works, made when it first does.
    """

    x_DNT: Tensor
    y_NT: Tensor
    regressors: int
    known_NT: Tensor
    last_T: Tensor
    count_T: Tensor
    scratch: list[Tensor]

    def __len__(self) -> int:
        return len(self.last_T)

    @property
    def blocks(self) -> int:
        """Blocks of a task's factor."""
        across = len(self.y_NT) // 4
        return across * (across + 1) // 2

    def rounds(self, lanes: int, room: int) -> tuple[Tensor, list[tuple[int, int]]]:
        """Memory for a kernel to work in, `room` numbers a lane, and its launches: first lane, and programs."""
        tiles, at_once = -(-lanes // LANES.value), min(max(len(self) // _SHARE, _FEWEST), _MOST) // LANES.value
        numbers = min(tiles, at_once) * LANES.value * room
        if not self.scratch or self.scratch[0].numel() < numbers:
            self.scratch[:] = [torch.empty(numbers, dtype=torch.float64, device=self.y_NT.device)]
        return self.scratch[0], [(tile * LANES.value, min(at_once, tiles - tile)) for tile in range(0, tiles, at_once)]


def last(tasks: Tasks) -> Tensor:
    """How many blocks of points each task has."""
    N = tasks.y_TN.shape[1]
    if N == 0:
        return torch.ones(len(tasks), dtype=torch.int32, device=tasks.y_TN.device)
    places_N = torch.arange(1, N + 1, device=tasks.y_TN.device, dtype=torch.int32)
    return (((tasks.keep_TN * places_N).amax(1) + 3) // 4).clamp(min=1)


def lay(tasks: Tasks) -> Laid:
    """Lays tasks out for the kernel."""
    tasks = tasks.to(torch.float64)
    N = tasks.y_TN.shape[1]
    up = 4 * max(1, -(-N // 4))
    return Laid(
        torch.stack([innermost(each, up) for each in tasks.x_TND.unbind(2)]),
        innermost(tasks.y_TN, up),
        tasks.H_TNQ.shape[2],
        innermost(torch.where(tasks.keep_TN, tasks.known_TN, -math.inf), up, -math.inf),
        last(tasks),
        tasks.keep_TN.sum(1).to(tasks.y_TN.dtype),
        [],
    )
