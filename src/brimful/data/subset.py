"""Some samples of a source: by an index, or in splits that never change and never share a group."""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..core.base.errors import ConfigError, InputError
from ..core.base.rows import rows_of as rows_of_part
from ..core.runs import fingerprint
from .dataset import Dataset, Field, Fields, Gather, some
from .shuffle.permutation import split_permutation
from .sources import source as rows_of

_SPREAD = 16  # rows that may be read for one that is wanted


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
        span = np.ptp(self.index) if len(self.index) else 0
        in_order = bool((np.diff(self.index) > 0).all()) and span < _SPREAD * len(self.index)
        self.sequential = self._rows.sequential and in_order
        self.fields = {
            name: Field(form.dtype, form.shape, None if form.lengths is None else form.lengths[self.index])
            for name, form in self._rows.fields.items()
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return Subset, (self._rows, self.index)

    def __len__(self) -> int:
        return len(self.index)

    def gather(self, index: np.ndarray, pin: bool = False) -> dict[str, Any]:
        return self._rows.gather(self.index[index], pin)

    def load(self, rows: slice | np.ndarray) -> tuple[Fields, dict[int, str]]:
        """Of a source that is read front to back, the range of its rows in which these are, where that is not much
        more than them."""
        index = self.index[rows]
        if not self._rows.sequential or not len(index) or np.ptp(index) >= _SPREAD * len(index):
            return (self.gather(np.arange(len(self))[rows]), {}) if self._rows.sequential else self._rows.load(index)
        start = int(index.min())
        fields, bad = self._rows.load(slice(start, int(index.max()) + 1))
        within = torch.from_numpy(index - start)
        positions = {number: row for row, number in enumerate(within.tolist()) if number in bad} if bad else {}
        return (
            {name: rows_of_part(part).take_rows(within) for name, part in fields.items()},
            {row: bad[number] for number, row in positions.items()},
        )

    def row_error(self, reason: str, row: int) -> InputError:
        return self._rows.row_error(reason, row)

    @contextlib.contextmanager
    def reading(self, workers: int, pin: bool = False) -> Iterator[Gather]:
        with self._rows.reading(workers, pin) as gather:
            yield lambda index: gather(self.index[index])

    def fingerprint(self) -> str:
        return fingerprint.of([self._rows.fingerprint(), self.index])


def split(what: Any, fractions: Mapping[str, float] | Sequence[float], seed: int = 0, groups: Any = None) -> Any:
    """Sample numbers for training, validation, test, or whatever the fractions are for.

    The same arguments give the same splits, on every platform. Without groups the sizes are the fractions, rounded.
    With groups (a patient, a user, a day: one label per sample) all samples of a group go to one split; groups are put
    in an order given by the seed and their labels, whatever the order of the samples, so the sizes are as near as that
    allows.

    Args:
        what: how many samples there are, or the dataset.
        fractions: by name, or one after the other; they sum to 1.
        seed: of the split.
        groups: (N,) whole numbers or texts.

    Returns:
        Sorted sample numbers: a dict where fractions is one, a tuple otherwise.

    Example:
        >>> train, test = split(10, (0.8, 0.2))
        >>> len(train), test
        (8, array([2, 5]))
    """
    samples = some(what if isinstance(what, int) else len(rows_of(what)))
    shares = np.array(list(fractions.values() if isinstance(fractions, Mapping) else fractions), np.float64)
    if not len(shares) or not (shares > 0).all() or abs(shares.sum() - 1) > 1e-6:
        raise ConfigError(f"fractions are {fractions!r}; give numbers above 0 that sum to 1, such as (0.8, 0.1, 0.1)")
    ends = np.rint(np.cumsum(shares) * samples).astype(np.int64)
    if groups is None:
        parts = np.split(split_permutation(samples, seed), ends[:-1])
    else:
        parts = _grouped(_labels(groups, samples), ends, seed)
    if any(len(part) == 0 for part in parts):
        raise InputError(
            f"{samples} samples{'' if groups is None else ' in so few groups'} leave a split empty, with fractions "
            f"{fractions!r}; use fewer splits or larger fractions"
        )
    splits = [np.sort(part) for part in parts]
    return dict(zip(fractions, splits, strict=True)) if isinstance(fractions, Mapping) else tuple(splits)


def _labels(groups: Any, samples: int) -> np.ndarray:
    labels = np.asarray(groups)
    if labels.shape != (samples,) or labels.dtype.kind not in "iubUS":
        raise InputError(
            f"groups has dtype {labels.dtype} and shape {labels.shape} for {samples} samples; give one whole number or "
            "text per sample"
        )
    return labels


def _grouped(labels: np.ndarray, ends: np.ndarray, seed: int) -> list[np.ndarray]:
    names, group_N, counts = np.unique(labels, return_inverse=True, return_counts=True)
    digests = [hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=8).digest() for name in names.tolist()]
    order = sorted(range(len(names)), key=lambda group: (digests[group], group))
    middles = np.cumsum(counts[order]) - counts[order] / 2  # a group goes to the split in which its middle falls
    split_of = np.empty(len(names), np.int64)
    split_of[order] = np.searchsorted(ends[:-1], middles, side="right")
    return [np.flatnonzero(split_of[group_N] == index) for index in range(len(ends))]
