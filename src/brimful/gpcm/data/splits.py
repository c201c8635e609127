"""Students split into training, validation and test, or into folds. No student is in two parts, however many sequences
it has, and its part depends only on its id, the other ids, and the seed."""

import hashlib
from collections.abc import Sequence

import numpy as np

from ...core.base.errors import ConfigError
from .students import Students


def split(students: Students, fractions: Sequence[float], seed: int = 0) -> tuple[Students, ...]:
    """Parts of the students, each with its fraction of them (rounded), in the order they came.

    Example:
        >>> from brimful.gpcm.data.synthetic import synthetic
        >>> [len(part) for part in split(synthetic(50, 10, 3).students, (0.8, 0.1, 0.1))]
        [40, 5, 5]
    """
    shares = np.asarray(fractions, dtype=np.float64)
    if shares.ndim != 1 or not len(shares) or not bool((shares > 0).all()) or abs(shares.sum() - 1) > 1e-6:
        raise ConfigError(f"fractions are {tuple(fractions)}; give positive numbers that sum to 1, such as (0.8, 0.2)")
    order, owner = _shuffled(students.ids, seed)
    ends = np.round(np.cumsum(shares) * len(order)).astype(np.int64)
    part = np.searchsorted(ends, np.arange(len(order)), side="right")
    return tuple(students.select(_part_of_sequences(part, order, owner) == number) for number in range(len(shares)))


def folds(students: Students, n: int = 5, seed: int = 0) -> list[tuple[Students, Students]]:
    """`n` folds: the students to train on, and the others to test on; each student is tested in exactly one."""
    order, owner = _shuffled(students.ids, seed)
    if not 2 <= n <= len(order):
        raise ConfigError(f"{n} folds of {len(order)} students; give between 2 and the number of students")
    fold = _part_of_sequences(np.arange(len(order)) % n, order, owner)
    return [(students.select(fold != number), students.select(fold == number)) for number in range(n)]


def _shuffled(ids: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct students in a shuffled order, and which of them each sequence belongs to. The order is that of a
    digest of seed and id, so that it does not depend on numpy's version."""
    names, owner = np.unique(ids, return_inverse=True)
    digest = [hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest() for name in names]
    return np.array(sorted(range(len(names)), key=digest.__getitem__), dtype=np.int64), owner.reshape(-1)


def _part_of_sequences(part: np.ndarray, order: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """The part of each sequence, from the parts of the students in shuffled order."""
    of_student = np.empty(len(order), np.int64)
    of_student[order] = part
    return of_student[owner]
