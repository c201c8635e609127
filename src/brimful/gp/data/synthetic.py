"""Random tasks, drawn as they are asked for: sums of two random sines, with noise.

Blocks of tasks have generators of their own, so that neither the way the work is split nor the number of threads
changes what a task is, and no more than a batch is ever in memory.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...core.base.background import cores
from ...engine.map.sources import ItemSource, LoadedBatch

_BLOCK = 256  # tasks of one generator
_BLOCKS = 8  # that a thread draws at a time


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
        count = stop - start
        jobs = range(start // _BLOCK, max(start, stop - 1) // _BLOCK + 1, _BLOCKS)
        out = _Drawn(
            None if self.shared else torch.empty(count, self.points),
            torch.empty(count, self.points),
            None if at is None else torch.empty(count, len(at), 2, dtype=torch.float64),
        )
        points = None if at is None else at.numpy()
        threads = min(cores(), len(jobs))
        if threads < 2:
            for first in jobs:
                self._fill(first, start, stop, points, out)
        else:
            with ThreadPoolExecutor(threads, "brimful-draw") as pool:
                list(pool.map(lambda first: self._fill(first, start, stop, points, out), jobs))
        return out

    def _fill(self, first: int, start: int, stop: int, at: np.ndarray | None, out: _Drawn) -> None:
        """Draws some blocks, and puts those of their tasks that are asked for where they belong. By few calls for many
        tasks, and NumPy's where they are not draws: threads take turns at the interpreter, and torch's own at the
        cores."""
        blocks, columns = range(first, min(first + _BLOCKS, -(-stop // _BLOCK))), 7 + self.points
        uniform, noise = torch.empty(2, len(blocks), columns * _BLOCK, dtype=torch.float64)
        fresh = torch.zeros(len(blocks), _BLOCK, 0 if at is None else len(at), dtype=torch.float64)
        for row, block in enumerate(blocks):
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + block)
            torch.rand(columns * _BLOCK, generator=generator, out=uniform[row])
            torch.randn(self.points * _BLOCK, generator=generator, out=noise[row, : self.points * _BLOCK])
            if at is not None:
                torch.randn(fresh.shape[1:], generator=generator, out=fresh[row])

        low, high = max(start, first * _BLOCK), min(stop, blocks.stop * _BLOCK)
        to, rows = slice(low - start, high - start), slice(low - first * _BLOCK, high - first * _BLOCK)

        def drawn(begin: int, width: int, source: Tensor = uniform) -> np.ndarray:
            """Columns of every block, which has them one after the other; of the tasks that are asked for."""
            part = source[:, begin * _BLOCK : (begin + width) * _BLOCK].numpy()
            return part.reshape(len(blocks) * _BLOCK, width)[rows]

        frequency, phase, height = 1 + 3 * drawn(0, 2), 2 * np.pi * drawn(2, 2), 0.3 + 0.7 * drawn(4, 2)
        sigma = np.exp(math.log(0.02) + (math.log(0.3) - math.log(0.02)) * drawn(6, 1))

        def sines(points: np.ndarray) -> np.ndarray:
            """The sum of both."""
            total = np.zeros(())
            for wave in range(2):
                part = 2 * np.pi * frequency[:, wave : wave + 1] * points
                np.sin(np.add(part, phase[:, wave : wave + 1], out=part), out=part)
                total = total + np.multiply(part, height[:, wave : wave + 1], out=part)
            return total

        # Their own inputs are drawn for shared ones too: tasks have the same noise either way.
        x = self.inputs()[:, 0].numpy() if out.x is None else np.sort(drawn(7, self.points), 1)
        out.y.numpy()[to] = sines(x) + drawn(0, self.points, noise) * sigma
        if out.x is not None:
            out.x.numpy()[to] = x
        if at is not None and out.there is not None:
            there = out.there.numpy()
            there[to, :, 0] = truth = sines(at)
            there[to, :, 1] = truth + sigma * fresh.numpy().reshape(-1, len(at))[rows]

    def item_bytes(self) -> int:
        return 8 * self.points

    def fingerprint(self) -> str:
        return f"synthetic {self.length} {self.points} {self.seed} {self.shared}"

    def spec(self) -> str:
        return f"synthetic {self.points} {self.shared}"
