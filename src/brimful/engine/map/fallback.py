"""Trying failed items another way: another function, another number format, another device."""

from collections.abc import Callable
from typing import Any

import torch

from ...core.base import pytree
from ...core.base.errors import InputError
from ...core.memory import devices
from ...core.memory.oom import InseparableBatch, OutOfMemory
from .executor import BatchResult, Executor
from .sources import LoadedBatch


def fallback_executor(
    fn: Callable[[Any], Any], device: torch.device, nonfinite: str, fallback: Any
) -> Callable[[LoadedBatch], list[BatchResult]] | None:
    """What `Executor` calls for items that went wrong. ItemSource that do not fit together are tried in smaller parts.

    Args:
        fn: the function that failed on them.
        device: where it ran.
        nonfinite: as for `Executor`.
        fallback: another function, a dtype to compute in, or a device; None for no second try.
    """
    if fallback is None:
        return None
    executor = _other_way(fn, device, nonfinite, fallback)

    def rescue(loaded: LoadedBatch) -> list[BatchResult]:
        waiting, done = [loaded], []
        while waiting:
            part = waiting.pop()
            try:
                done.append(executor.finish(executor.launch(executor.stage(part))))
            except (OutOfMemory, InseparableBatch):
                if part.count == 1:
                    done.append(executor.too_big(part))
                else:
                    middle = part.count // 2
                    waiting += [part.slice(middle, part.count), part.slice(0, middle)]
        return done

    return rescue


def _other_way(fn: Callable[[Any], Any], device: torch.device, nonfinite: str, fallback: Any) -> Executor:
    if isinstance(fallback, torch.dtype):

        def cast(tree: pytree.Tree) -> Any:
            return fn(pytree.apply(tree, lambda tensor: tensor.to(fallback) if tensor.is_floating_point() else tensor))

        return Executor(cast, device, nonfinite=nonfinite, lenient=True)
    if callable(fallback):
        return Executor(fallback, device, nonfinite=nonfinite, lenient=True)
    if isinstance(fallback, str | torch.device):
        return Executor(fn, devices.resolve(fallback), nonfinite=nonfinite, lenient=True)
    raise InputError(f"fallback is {fallback!r}; give a function, a dtype such as torch.float64, or a device")
