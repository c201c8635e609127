"""Recomputation: parts of a model that keep their inputs alone, and are run again in the backward pass."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from ....core.base.errors import ConfigError


def names(model: nn.Module, spec: Any) -> tuple[str, ...]:
    """Which submodules could be recomputed: those named, or those that `model.recomputable()` names."""
    if isinstance(spec, str) and spec != "auto":
        spec = [spec]
    if spec is False:
        return ()
    if isinstance(spec, Sequence) and not isinstance(spec, str):
        chosen = [str(name) for name in spec]
    else:
        own = getattr(model, "recomputable", None)
        if own is None:
            if spec is True:
                raise ConfigError(
                    "recompute=True, and the model does not say of what; give the names of submodules, or the model a "
                    "method recomputable() that returns them"
                )
            return ()
        chosen = list(own())
    there = dict(model.named_modules())
    if missing := [name for name in chosen if name not in there or not name]:
        raise ConfigError(f"recompute names {missing[0]!r}; the model has {', '.join(filter(None, there)) or 'none'}")
    return tuple(chosen)


@contextlib.contextmanager
def recomputing(model: nn.Module, chosen: Sequence[str]) -> Iterator[None]:
    """While open, the named submodules are recomputed in training."""
    modules = [model.get_submodule(name) for name in chosen]
    try:
        for module in modules:
            module.forward = _again(module, module.forward)
        yield
    finally:
        for module in modules:
            module.__dict__.pop("forward", None)


def _again(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if not module.training:
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    return run
