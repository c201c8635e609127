"""The tiles of a fold: some components and some samples at a time, smaller ones where memory runs out."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ...core.base.errors import BrimfulWarning
from ...core.memory.oom import retry_smaller

SMALLEST = "one component for one sample"
ADVICE = "Use a larger budget, a lower precision, or a term that needs less for each component"

TileFunction = Callable[[slice, slice], None]
"""Computes one tile: a slice of the components, and one of the samples."""


@dataclass(slots=True, eq=False)
class Tiling:
    """The most components and samples of a tile, lowered for good where a tile does not fit.

    Attributes:
        chunk: components at a time.
        samples: samples at a time.
        retries: whether a tile that does not fit is computed again in smaller ones.
        warned: whether memory ran out, and a warning was given.
    """

    chunk: int
    samples: int
    device: torch.device
    retries: bool = True
    warned: bool = False

    def for_each_tile(self, components: int, samples: int, compute: TileFunction) -> None:
        """Computes all tiles: for each block of samples, all chunks of components. Where there is nothing, an empty
        one, since the term itself says what its values look like."""
        todo = [(slice(0, components), slice(0, samples))]

        def attempt() -> None:
            while todo:
                part, rows = todo[-1]
                if size(rows) > self.samples:
                    todo[-1:] = [(part, block) for block in _split(rows, self.samples)]
                elif size(part) > self.chunk:
                    todo[-1:] = [(chunk, rows) for chunk in _split(part, self.chunk)]
                else:
                    compute(part, rows)
                    todo.pop()

        if self.retries:
            retry_smaller(attempt, lambda: self.shrink(*map(size, todo[-1])), self.device, SMALLEST, ADVICE)
        else:
            attempt()

    def shrink(self, components: int, samples: int) -> bool:
        """Goes down to half of what did not fit, and warns once; False where that was the smallest tile."""
        if components > 1:
            self.chunk = (components + 1) // 2
        elif samples > 1:
            self.samples = (samples + 1) // 2
        else:
            return False
        if not self.warned:
            self.warned = True
            warnings.warn(
                f"out of memory on {components} components for {samples} samples; computed again, and from here on, "
                f"with at most {self.chunk} for {min(samples, self.samples)}",
                BrimfulWarning,
                stacklevel=2,
            )
        return True


def size(part: slice) -> int:
    """How many rows a slice has."""
    return part.stop - part.start


def _split(part: slice, count: int) -> tuple[slice, slice]:
    """All but the first `count` rows, and then these, which a stack gives back first."""
    middle = part.start + count
    return slice(middle, part.stop), slice(part.start, middle)
