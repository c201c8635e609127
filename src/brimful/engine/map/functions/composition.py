"""Functions of a batch put together: several in a chain on the device, and one that needs something made once per
worker, such as a model that is loaded."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ....core.base import pytree
from ....core.base.errors import InputError
from ....core.base.rows import rows_of
from ..batch import Batch

_made: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""What setups made: not in the object, which is sent to workers and hashed."""


class Chain:
    """Functions one after the other; what one returns the next one gets, on the device."""

    def __init__(self, functions: Sequence[Callable[[Any], Any]]) -> None:
        self.functions = tuple(functions)

    def __call__(self, batch: Any) -> Any:
        for number, function in enumerate(self.functions):
            if isinstance(batch, Batch):
                raise InputError(f"function {number} of the chain returned a Batch; only the last one may")
            batch = function(batch)
        return batch


class WithSetup:
    """A function of a batch and of what `setup(device)` made, once in each process."""

    def __init__(self, function: Callable[[Any, Any], Any], setup: Callable[[torch.device], Any]) -> None:
        self.function, self.setup = function, setup

    def __call__(self, batch: Any) -> Any:
        if self not in _made:
            try:
                prepare(self, rows_of(pytree.row_leaves(batch)[0][1]).elements.device)
            except Exception as error:
                raise SetupFailed(error) from error
        return self.function(batch, _made[self])


class SetupFailed(Exception):
    """A setup raised an error: it is no item's."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def prepare(function: Any, device: torch.device) -> None:
    """Calls the setup of a function that has one, before the first batch is there."""
    if isinstance(function, WithSetup) and function not in _made:
        try:
            _made[function] = function.setup(device)
        except Exception as error:
            error.add_note("brimful.map: setup= failed, which is no item's fault; mend it and run again.")
            raise


def composed(fn: Any, setup: Callable[[torch.device], Any] | None) -> Callable[[Any], Any]:
    """What `fn` and `setup` of `map` ask for, as one function of a batch."""
    if isinstance(fn, list | tuple):
        if not fn or not all(callable(function) for function in fn):
            raise InputError("fn is a chain; give a list of at least one function of a batch")
        if setup is not None:
            raise InputError("setup is for a single function of a batch and of what it made; put the chain into that")
        return Chain(fn)
    if not callable(fn):
        raise InputError(f"fn is a {type(fn).__name__}; it must be a function of a batch")
    if setup is None:
        return fn
    if not callable(setup):
        raise InputError(f"setup is a {type(setup).__name__}; give a function of the device")
    return WithSetup(fn, setup)
