"""Where a fold is cut: tiles of some components and some samples, smaller ones where memory runs out."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ...core.base.errors import BrimfulWarning, BudgetError
from ...core.memory import devices
from ...core.memory.oom import clear_frames, error_line, is_out_of_memory

Work = Callable[[slice, slice], None]
"""Does one tile: a slice of the components, and one of the samples."""


@dataclass(slots=True, eq=False)
class Cuts:
    """The most components and samples of a tile, lowered for good where a tile does not fit.

    Attributes:
        chunk: components at a time.
        samples: samples at a time.
        retries: whether a tile that does not fit is done again in smaller ones.
        told: whether a warning was given.
    """

    chunk: int
    samples: int
    device: torch.device
    retries: bool = True
    told: bool = False

    def each(self, components: int, samples: int, work: Work) -> None:
        """Works through all tiles: for each block of samples, all chunks of components. One empty tile where there is
        nothing, since the term itself says what its values look like."""
        if not (components and samples):
            work(slice(0, components), slice(0, samples))
            return
        first = 0
        while first < samples:
            until, start = min(first + self.samples, samples), 0
            while start < components:
                stop = min(start + self.chunk, components)
                self._tile(slice(start, stop), slice(first, until), work)
                start = stop
            first = until

    def _tile(self, part: slice, rows: slice, work: Work) -> None:
        """Does a tile, in pieces where it is larger than what fits by now."""
        todo = [(part, rows)]
        while todo:
            part, rows = todo.pop()
            if _size(part) > self.chunk:
                todo += [(half, rows) for half in _halves(part)]
            elif _size(rows) > self.samples:
                todo += [(part, half) for half in _halves(rows)]
            elif not self._fits(part, rows, work):
                todo.append((part, rows))

    def _fits(self, part: slice, rows: slice, work: Work) -> bool:
        try:
            work(part, rows)
            return True
        except Exception as error:
            if not (self.retries and is_out_of_memory(error)):
                raise
            clear_frames(error)
            reason = error_line(error)
        devices.release_cache(self.device)
        self.lower(_size(part), _size(rows), reason)
        return False

    def lower(self, components: int, samples: int, reason: str) -> None:
        """Goes down to half of what did not fit, and says so once."""
        if components > 1:
            self.chunk = (components + 1) // 2
        elif samples > 1:
            self.samples = (samples + 1) // 2
        else:
            raise too_small(reason)
        if not self.told:
            self.told = True
            warnings.warn(
                f"out of memory on {components} components for {samples} samples; done again, and from here on, with "
                f"at most {self.chunk} for {min(samples, self.samples)}",
                BrimfulWarning,
                stacklevel=2,
            )


def too_small(reason: str) -> BudgetError:
    """The error for the smallest tile there is."""
    return BudgetError(
        f"one component for one sample does not fit: {reason}. Use a larger budget, a lower precision, or a term that "
        "needs less for each component"
    )


def _size(part: slice) -> int:
    return part.stop - part.start


def _halves(part: slice) -> tuple[slice, slice]:
    """The second half, and then the first, which a stack gives back first."""
    middle = part.start + (_size(part) + 1) // 2
    return slice(middle, part.stop), slice(part.start, middle)
