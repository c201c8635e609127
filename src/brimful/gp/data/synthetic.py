"""Random tasks, drawn as they are asked for: sums of two random sines, with noise.

Blocks of tasks have generators of their own, so that neither the way the work is split nor the number of threads
changes what a task is, and no more than a batch is ever in memory.
"""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...core.base.background import cores
from ...engine.map.sources import ItemSource, LoadedBatch

DRAWN = "float32"
"""How they are drawn: a store that keeps only their seed says so, since others would be drawn otherwise."""
_BLOCK = 256  # tasks of one generator
_BLOCKS, _NUMBERS = 16, 1 << 18  # that a thread draws at a time, and about how many numbers these may have


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Room for tasks: inputs where they have their own, targets, and the truth and an observation at new points."""

    x: Tensor | None
    y: Tensor
    there: Tensor | None


_local = threading.local()


def _scratch(name: str, rows: int, columns: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Memory that a thread keeps, and is given again under that name."""
    kept, key = vars(_local), f"{name} {dtype}"
    if key not in kept or kept[key].numel() < rows * columns:
        kept[key] = torch.empty(rows * columns, dtype=dtype)
    return kept[key][: rows * columns].view(rows, columns)


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

    @property
    def _at_once(self) -> int:
        """Blocks that a thread draws at a time."""
        return max(1, min(_BLOCKS, _NUMBERS // (_BLOCK * self.points)))

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
        return there[0], there[1]

    def _draw(self, start: int, stop: int, at: Tensor | None) -> _Drawn:
        count = stop - start
        jobs = range(start // _BLOCK, max(start, stop - 1) // _BLOCK + 1, self._at_once)
        out = _Drawn(
            None if self.shared else torch.empty(count, self.points),
            torch.empty(count, self.points),
            None if at is None else torch.empty(2, count, len(at), dtype=torch.float64),
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
        tasks, into memory that its thread keeps: threads take turns at the interpreter, and at new pages. What shared
        and own inputs have in common is drawn first: tasks are the same either way."""
        blocks, N = range(first, min(first + self._at_once, -(-stop // _BLOCK))), self.points
        waves, noise = _scratch("waves", len(blocks), 7 * _BLOCK), _scratch("noise", len(blocks), N * _BLOCK)
        own = _scratch("own", len(blocks), 0 if out.x is None else N * _BLOCK)
        fresh = _scratch("fresh", len(blocks), 0 if at is None else len(at) * _BLOCK)
        for row, block in enumerate(blocks):
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + block)
            waves[row].uniform_(generator=generator)
            noise[row].normal_(generator=generator)
            if out.x is not None:
                own[row].uniform_(generator=generator)
            if at is not None:
                fresh[row].normal_(generator=generator)

        low, high = max(start, first * _BLOCK), min(stop, blocks.stop * _BLOCK)
        to, rows = slice(low - start, high - start), slice(low - first * _BLOCK, high - first * _BLOCK)

        def drawn(begin: int, width: int, source: Tensor = waves) -> np.ndarray:
            """Columns of every block, which has them one after the other; of the tasks that are asked for."""
            part = source[:, begin * _BLOCK : (begin + width) * _BLOCK].numpy()
            return part.reshape(len(blocks) * _BLOCK, width)[rows]

        frequency, phase, height = 1 + 3 * drawn(0, 2), 2 * np.pi * drawn(2, 2), 0.3 + 0.7 * drawn(4, 2)
        sigma = np.exp(math.log(0.02) + (math.log(0.3) - math.log(0.02)) * drawn(6, 1))

        def sines(points: np.ndarray, total: np.ndarray) -> None:
            """The sum of both."""
            part = _scratch("part", *total.shape, dtype=torch.from_numpy(total[:0]).dtype).numpy()
            for wave in range(2):
                np.multiply(2 * np.pi * frequency[:, wave : wave + 1], points, out=part)
                np.sin(np.add(part, phase[:, wave : wave + 1], out=part), out=part)
                np.multiply(part, height[:, wave : wave + 1], out=part)
                np.add(total, part, out=total) if wave else np.copyto(total, part)

        y, x = out.y.numpy()[to], self.inputs()[:, 0].float().numpy()
        if out.x is not None:
            x = out.x.numpy()[to]
            np.copyto(x, drawn(0, N, own))
            x.sort(1)
        sines(x, y)
        off = drawn(0, N, noise)
        np.add(y, np.multiply(off, sigma, out=off), out=y)
        if at is not None and out.there is not None:
            truth, seen = out.there.numpy()[0, to], out.there.numpy()[1, to]
            sines(at, truth)
            np.add(truth, sigma * drawn(0, len(at), fresh), out=seen)

    def item_bytes(self) -> int:
        return 8 * self.points

    def fingerprint(self) -> str:
        return f"synthetic {DRAWN} {self.length} {self.points} {self.seed} {self.shared}"

    def spec(self) -> str:
        return f"synthetic {self.points} {self.shared}"
