"""Recomputation: submodules that keep only their inputs, and run again in the backward pass."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from ....core.base.errors import ConfigError


def recomputable(model: nn.Module, spec: Any) -> tuple[str, ...]:
    """The names of the submodules that may be recomputed: those of a `recompute=` argument, or of the model's method
    `recomputable()`."""
    if spec is False or spec is None:
        return ()
    if spec == "auto" or spec is True:
        method = getattr(model, "recomputable", None)
        if spec is True and method is None:
            raise ConfigError(
                "recompute=True, and the model does not say what; give the names of submodules, or the model a method "
                "recomputable() that returns them"
            )
        names = () if method is None else tuple(method())
    else:
        names = (spec,) if isinstance(spec, str) else tuple(map(str, spec))
    modules = dict(model.named_modules())
    if missing := [name for name in names if name not in modules or not name]:
        raise ConfigError(f"recompute names {missing[0]!r}; the model has {', '.join(filter(None, modules)) or 'none'}")
    return names


@contextlib.contextmanager
def recomputing(model: nn.Module, names: Sequence[str]) -> Iterator[None]:
    """While open, the named submodules are recomputed in training."""
    modules = [model.get_submodule(name) for name in names]
    try:
        for module in modules:
            module.forward = _checkpointed(module, module.forward)
        yield
    finally:
        for module in modules:
            module.__dict__.pop("forward", None)


def _checkpointed(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if not module.training:
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    return run
