"""Random tasks, drawn as they are asked for: sums of two random sines, with noise.

Blocks of tasks have generators of their own, so that neither the way the work is split nor the number of threads
changes what a task is, and no more than a batch is ever in memory.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.base.background import cores
from ...engine.map.sources import ItemSource, LoadedBatch

_BLOCK = 256  # tasks of one generator
_SERIAL = 1 << 14  # numbers that torch works on in one thread: the blocks are spread over the threads already
_BLOCKS = 4  # per thread, at the least


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Room for tasks: inputs where they have their own, targets, and the truth and an observation at new points."""

    x: Tensor | None
    y: Tensor
    there: Tensor | None


class SyntheticTasks(ItemSource):
    """Tasks drawn as they are asked for.

    Args:
        count: how many there are.
        points: of each.
        seed: which ones.
        shared: whether their inputs are evenly spaced, and the same for all; otherwise each has random ones.
    """

    def __init__(self, count: int, points: int, seed: int, shared: bool) -> None:
        self.length = count
        self.points, self.seed, self.shared = points, seed, shared
        self.arguments = [count, points, seed, shared]

    def inputs(self) -> Tensor:
        """The inputs that all tasks share."""
        return torch.linspace(0, 1, self.points, dtype=torch.float64)[:, None]

    def load(self, start: int, stop: int, capacity: float | None = None) -> LoadedBatch:
        drawn = self._draw(start, stop, None)
        tree = {"y": drawn.y} if drawn.x is None else {"x": drawn.x[:, :, None], "y": drawn.y}
        return LoadedBatch(start, stop - start, tree)

    def observe(self, start: int, stop: int, at: Tensor) -> tuple[Tensor, Tensor]:
        """Of some tasks, the noise-free truth at new points, and noisy observations there."""
        there = self._draw(start, stop, at.double().reshape(-1)).there
        assert there is not None
        return there[:, :, 0], there[:, :, 1]

    def _draw(self, start: int, stop: int, at: Tensor | None) -> _Drawn:
        count, blocks = stop - start, range(start // _BLOCK, max(start, stop - 1) // _BLOCK + 1)
        out = _Drawn(
            None if self.shared else torch.empty(count, self.points),
            torch.empty(count, self.points),
            None if at is None else torch.empty(count, len(at), 2, dtype=torch.float64),
        )
        threads = max(1, min(cores(), len(blocks) // _BLOCKS))

        def fill(first: int) -> None:
            for block in blocks[first::threads]:
                self._fill(block, start, stop, at, out)

        if threads == 1:
            fill(0)
        else:
            with ThreadPoolExecutor(threads, "brimful-draw") as pool:
                list(pool.map(fill, range(threads)))
        return out

    def _fill(self, block: int, start: int, stop: int, at: Tensor | None, out: _Drawn) -> None:
        """Draws a block, and puts those of its tasks that are asked for where they belong."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + block)

        def uniform(low: float, high: float, columns: int) -> Tensor:
            drawn = torch.rand(_BLOCK, columns, generator=generator, dtype=torch.float64)
            return drawn.mul_(high - low).add_(low)

        def normal(columns: int) -> Tensor:
            return torch.randn(_BLOCK, columns, generator=generator, dtype=torch.float64)

        frequency, phase, height = uniform(1, 4, 2), uniform(0, 2 * math.pi, 2), uniform(0.3, 1, 2)
        sigma = torch.exp(uniform(math.log(0.02), math.log(0.3), 1))
        own = uniform(0, 1, self.points)  # drawn for shared inputs too: tasks have the same noise either way
        noise = normal(self.points)
        first = block * _BLOCK
        low, high = max(start, first) - first, min(stop, first + _BLOCK) - first
        waves = 2 * math.pi * frequency, phase, height

        def sines(points: Tensor, rows: slice) -> Tensor:
            """The sum of both, of some tasks."""
            parts = []
            for angle, shift, factor in zip(*(value[rows].unbind(1) for value in waves), strict=True):
                part = torch.mul(angle[:, None], points).add_(shift[:, None])
                parts.append(part.sin_().mul_(factor[:, None]))
            return parts[0].add_(parts[1])

        at_once = max(1, _SERIAL // max(1, self.points, 0 if at is None else len(at)))
        shared = self.inputs()[:, 0]
        for row in range(low, high, at_once):
            rows = slice(row, min(high, row + at_once))
            to = slice(first + rows.start - start, first + rows.stop - start)
            x = shared if out.x is None else own[rows].sort(1).values
            out.y[to] = sines(x, rows).add_(noise[rows].mul_(sigma[rows]))
            if out.x is not None:
                out.x[to] = x
            if at is not None and out.there is not None:
                out.there[to, :, 0] = sines(at, rows)
        if at is not None and out.there is not None:
            rows, to = slice(low, high), slice(first + low - start, first + high - start)
            out.there[to, :, 1] = out.there[to, :, 0] + (sigma * normal(len(at)))[rows]

    def item_bytes(self) -> int:
        return 8 * self.points

    def fingerprint(self) -> str:
        return f"synthetic {self.length} {self.points} {self.seed} {self.shared}"

    def spec(self) -> str:
        return f"synthetic {self.points} {self.shared}"
