"""Some samples of a source."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ..core.base.errors import InputError
from ..core.runs import fingerprint
from .dataset import Dataset, Field, Gather, some
from .sources import source as rows_of


def sample_numbers(index: Any, samples: int) -> np.ndarray:
    """An index as int64, checked against the number of samples."""
    numbers = np.asarray(index.cpu() if isinstance(index, torch.Tensor) else index)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise InputError(
            f"index has dtype {numbers.dtype} and shape {numbers.shape}; give a list of sample numbers (of a mask: "
            "np.flatnonzero(mask))"
        )
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < samples:
        raise InputError(
            f"index goes from {numbers.min()} to {numbers.max()}, but the source has {samples} samples; give "
            f"numbers from 0 to {samples - 1}"
        )
    return numbers.astype(np.int64)


class Subset(Dataset):
    """Some samples of a source, in the order of an index: a split, a fold, a filter.

    Args:
        source: anything `loader` reads from.
        index: the numbers of its samples; each from 0 to its length - 1.

    Example:
        >>> Subset(torch.arange(10), [3, 1, 4]).take([0, 2])
        tensor([3, 4])
    """

    def __init__(self, source: Any, index: Any) -> None:
        self._rows = rows_of(source)
        self.index = sample_numbers(index, len(self._rows))
        some(len(self.index), "the index")
        self.pack, self.held = self._rows.pack, self._rows.held
        self.fields = {
            name: Field(form.dtype, form.shape, None if form.lengths is None else form.lengths[self.index])
            for name, form in self._rows.fields.items()
        }

    def __len__(self) -> int:
        return len(self.index)

    def gather(self, index: np.ndarray, pin: bool = False) -> dict[str, Any]:
        return self._rows.gather(self.index[index], pin)

    @contextlib.contextmanager
    def reading(self, workers: int, pin: bool = False) -> Iterator[Gather]:
        with self._rows.reading(workers, pin) as gather:
            yield lambda index: gather(self.index[index])

    def fingerprint(self) -> str:
        return fingerprint.of([self._rows.fingerprint(), self.index])
