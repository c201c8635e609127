"""Retrying the items that failed another way: with another function, in another dtype or on another device."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from ...core.base import pytree
from ...core.base.errors import InputError
from ...core.base.rows import rows_of
from ...core.memory import devices
from ...core.memory.oom import OutOfMemory, retry_smaller
from .batch import OWN_CODES, BatchResult, Status, is_bad
from .executor import Executor
from .sources import LoadedBatch


def make_executor(fn: Callable[[Any], Any], device: torch.device, *, fallback: Any = None, **options: Any) -> Executor:
    """The executor of a function, with its fallback.

    Args:
        fallback: how to retry items that failed: another function, a dtype to compute in, or a device. None: they stay
            failed.
        options: as for `Executor`.
    """
    rescue = None if fallback is None else Fallback(fn, device, fallback, **options)
    return Executor(fn, device, fallback=rescue, **options)


class Fallback:
    """Retries the items of a batch that failed.

    Args:
        fn, device: the function that failed on them, and where.
        fallback: another function, a dtype to compute in, or a device.
        options: as for `Executor`.
    """

    def __init__(self, fn: Callable[[Any], Any], device: torch.device, fallback: Any, **options: Any) -> None:
        def cast(tree: pytree.Tree) -> Any:
            floats = pytree.apply(tree, lambda tensor: tensor.to(fallback) if tensor.is_floating_point() else tensor)
            return fn(floats)

        if isinstance(fallback, str | torch.device):
            self.executor = Executor(fn, devices.resolve(fallback), **options, lenient=True)
        else:
            other = cast if isinstance(fallback, torch.dtype) else fallback
            self.executor = Executor(other, device, **options, lenient=True)

    def __call__(self, loaded: LoadedBatch, done: BatchResult) -> BatchResult:
        """The result of a batch with what the fallback gives for its bad items. The function's own codes are final."""
        bad = np.flatnonzero(is_bad(done.status) & (done.status < OWN_CODES))
        bad = bad[[item not in loaded.bad for item in bad.tolist()]]
        if len(bad) and loaded.tree is not None:
            for part in self._run(loaded.select(bad)):
                _merge(done, part, bad[part.start : part.start + part.count])
        return done

    def _run(self, loaded: LoadedBatch) -> Iterator[BatchResult]:
        """The results of these items; those that do not fit together are run in halves."""
        waiting = [loaded]

        def shrink() -> bool:
            if waiting[-1].count == 1:
                raise OutOfMemory
            waiting[-1:] = reversed(waiting[-1].halves())
            return True

        while waiting:
            try:
                yield retry_smaller(lambda: self.executor.run(waiting[-1]), shrink, self.executor.device)
            except OutOfMemory:
                yield self.executor.too_big(waiting[-1])
            waiting.pop()


def _merge(done: BatchResult, part: BatchResult, items: np.ndarray) -> None:
    """Puts the rows that a fallback saved into the batch.

    Args:
        items: the index in the batch of each item of the part.
    """
    failed = is_bad(part.status)
    for item, row in zip(items[failed].tolist(), np.flatnonzero(failed).tolist(), strict=True):
        if reason := part.messages.get(row):
            done.messages[item] = f"{done.messages.get(item, 'the function flagged it')}; the fallback too: {reason}"
    if failed.all() or part.values is None:
        return
    if done.values is None:
        done.values = pytree.blank_rows(part.values, done.count)
    if _shapes(done.values) != _shapes(part.values):
        raise InputError(
            f"the fallback returned {_shapes(part.values)} for an item and the function {_shapes(done.values)}; names "
            "and shapes must be the same"
        )
    target, saved = items[~failed], pytree.take_rows(part.values, torch.from_numpy(np.flatnonzero(~failed)))
    rows = pytree.zip_leaves(saved, done.values, lambda row, mine: rows_of(row).cast(rows_of(mine).elements.dtype))
    owned = pytree.apply(done.values, torch.clone)  # it may be the function's own memory, or expanded
    done.values = pytree.put_rows(owned, target, rows)
    lost = _beyond_range(saved, rows, len(target))
    done.status[target[~lost]] = Status.RESCUED
    for item in target[lost].tolist():
        before = done.messages.get(item, "it failed")
        done.messages[item] = f"{before}; the fallback's result is beyond the dtype's range"


def _beyond_range(saved: pytree.Tree, rows: pytree.Tree, count: int) -> np.ndarray:
    """Which items are finite as the fallback has them, and not in the result's dtype."""
    lost = torch.zeros(count, dtype=torch.bool)
    for (_, before), (_, after) in zip(pytree.row_leaves(saved), pytree.row_leaves(rows), strict=True):
        theirs, mine = rows_of(before), rows_of(after).elements
        if theirs.elements.is_floating_point() or theirs.elements.is_complex():
            lost |= ~theirs.all_rows(torch.isfinite(mine) | ~torch.isfinite(theirs.elements))
    return lost.numpy()


def _shapes(values: pytree.Tree) -> list[tuple[str, tuple[int | None, ...]]]:
    return [(name, shape) for name, _, shape in pytree.spec(values)]
