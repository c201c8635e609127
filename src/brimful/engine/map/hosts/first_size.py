"""The weight of the first batch on a kind of device: small where nothing is known, and where an earlier run came to
otherwise."""

import math

import numpy as np

from ....core.memory.cost import Cost
from ..sources import ItemSource

_FIRST = 64  # items in the first batch when nothing is known of the cost
_FIRST_KNOWN = 1024  # and the most when it is
_GROWTH = 8  # times the size that an earlier run came to, where it was too short to tell whether larger are faster


def first_size(items: ItemSource, cost: Cost, known: bool, budget: int) -> float:
    """The weight of the first batch.

    Args:
        cost: of a batch, by what is known or by a guess.
        known: whether it is known.
        budget: bytes of the device.
    """
    weights = np.ones(1) if items.weights is None or not len(items.weights) else items.weights
    mean, heaviest, room = float(weights.mean()), float(weights.max()), cost.capacity(budget)
    size = max(mean * min(_FIRST_KNOWN if known else _FIRST, room / mean / 16), mean, min(heaviest, room))
    if known:  # an earlier run has come further than that
        further = min(_once(items, cost.fastest * (_GROWTH if cost.growing else 1)), room)
        size = max(size, _evenly(items, further) if cost.growing else further)
    return size


def _evenly(items: ItemSource, size: float) -> float:
    """That size, or a smaller one where batches of it leave a small one at the end."""
    if items.length is None or items.weights is not None or not 0 < size < items.length:
        return size
    return math.ceil(items.length / math.ceil(items.length / size))


def _once(items: ItemSource, size: float) -> float:
    """That size, or all items where they are at most twice as much: two batches would take longer than one."""
    length, weights = items.length, items.weights
    total = float(length or 0) if weights is None else float(weights.sum())
    return total if length is not None and size < total <= 2 * size else size
