"""Trying failed items another way: another function, another number format, another device."""

from collections.abc import Callable
from typing import Any

import torch

from ...core.base import pytree
from ...core.base.errors import InputError
from ...core.memory import devices
from ...core.memory.oom import InseparableBatch, OutOfMemory
from .executor import Done, Runner
from .sources import Loaded


def rescuer(
    fn: Callable[[Any], Any], device: torch.device, nonfinite: str, fallback: Any
) -> Callable[[Loaded], list[Done]] | None:
    """What `Runner` calls for items that went wrong. Items that do not fit together are tried in smaller parts.

    Args:
        fn: the function that failed on them.
        device: where it ran.
        nonfinite: as for `Runner`.
        fallback: another function, a dtype to compute in, or a device; None for no second try.
    """
    if fallback is None:
        return None
    runner = _other_way(fn, device, nonfinite, fallback)

    def rescue(loaded: Loaded) -> list[Done]:
        waiting, done = [loaded], []
        while waiting:
            part = waiting.pop()
            try:
                done.append(runner.finish(runner.launch(runner.stage(part))))
            except (OutOfMemory, InseparableBatch):
                if part.count == 1:
                    done.append(runner.too_big(part))
                else:
                    middle = part.count // 2
                    waiting += [part.cut(middle, part.count), part.cut(0, middle)]
        return done

    return rescue


def _other_way(fn: Callable[[Any], Any], device: torch.device, nonfinite: str, fallback: Any) -> Runner:
    if isinstance(fallback, torch.dtype):

        def cast(tree: pytree.Tree) -> Any:
            return fn(pytree.apply(tree, lambda tensor: tensor.to(fallback) if tensor.is_floating_point() else tensor))

        return Runner(cast, device, nonfinite=nonfinite, lenient=True)
    if callable(fallback):
        return Runner(fallback, device, nonfinite=nonfinite, lenient=True)
    if isinstance(fallback, str | torch.device):
        return Runner(fn, devices.resolve(fallback), nonfinite=nonfinite, lenient=True)
    raise InputError(f"fallback is {fallback!r}; give a function, a dtype such as torch.float64, or a device")
