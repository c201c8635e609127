"""Batches in the order of work, put together in the order of the items."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import pytree
from .rows import Leaf, rows_of


class Gatherer:
    """The values of all items, filled by batches in any order.

    Args:
        form: a batch of the form that all must have.
        length: how many items there are.
    """

    def __init__(self, form: pytree.Tree, length: int) -> None:
        self._form = pytree.blank_rows(form, 0)
        self._leaves = [rows_of(leaf).gatherer(length) for _, leaf in pytree.row_leaves(form)]

    def put(self, index: np.ndarray, part: pytree.Tree) -> None:
        """Puts a batch in the place of its items; refuses one of another form."""
        pytree.check_same_form(self._form, part)
        where = pytree.row_index(index)
        rows: list[Any] = [leaf for _, leaf in pytree.row_leaves(part)]
        for gatherer, leaf in zip(self._leaves, rows, strict=True):
            gatherer.put(where, leaf)

    def blank(self, index: np.ndarray) -> None:
        """Fills the place of items that have no values."""
        self.put(index, pytree.blank_rows(self._form, len(index)))

    def whole(self) -> pytree.Tree:
        """All of them."""
        gatherers = iter(self._leaves)

        def filled(leaf: Leaf) -> Leaf:
            return next(gatherers).whole()

        return pytree.map_leaves(self._form, filled)


def assemble(
    parts: list[pytree.Tree], index: Sequence[np.ndarray], missing: Sequence[np.ndarray] = ()
) -> pytree.Tree | None:
    """Batches in order of work as one tree in order of items.

    Args:
        parts: batches of results; taken out one by one, so that their memory is free again.
        index: each batch's item indices.
        missing: indices of items that have no values at all; their rows are blank.
    """
    if not parts:
        return None
    if len(parts) == 1 and not missing and np.array_equal(index[0], np.arange(len(index[0]))):
        return parts.pop()
    for part in parts:
        pytree.check_same_form(parts[0], part)
    gatherer = Gatherer(parts[0], sum(map(len, [*index, *missing])))
    for where in reversed(index):
        gatherer.put(where, parts.pop())
    for where in missing:
        gatherer.blank(where)
    return gatherer.whole()
