"""Loops compiled for the CPU by numba. Where numba is not there, or cannot compile, their plain twins in torch run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.base.compilers.numba_cache import cached_njit

try:
    import numba
except Exception:  # not installed, or not for this version of Python or NumPy: it raises more than ImportError
    numba = None


_WRITTEN: dict[int, tuple[Any, Callable[..., Any]]] = {}
"""Loops by their `id`, each with the function that was compiled."""


def jit(function: Callable[..., Any], plain: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A loop, compiled when it is first called and kept on disk.

    Args:
        plain: what Python runs in its place where nothing can be compiled; the same loop by default.
    """
    written = plain or function
    loop = written if numba is None else cached_njit(nogil=True)(function)
    _WRITTEN[id(loop)] = loop, written
    return loop


def _assign_each(target, source):
    for place in range(len(target)):
        target[place] = source[place]


def _assign_all(target, source):
    target[:] = source


assign = jit(_assign_each, plain=_assign_all)
"""Writes one array into another of the same length. By itself numba takes seconds to compile such an assignment: it
comes with the text of an error that has the shapes of both."""


def usable(tensor: Tensor) -> bool:
    """Whether compiled loops run on a tensor."""
    return tensor.device.type == "cpu" and compiles()


@jit
def _one_more(numbers):
    return numbers + 1


@cache
def compiles() -> bool:
    """Whether a loop can be compiled here; if not, a warning says what runs instead."""
    try:
        if numba is not None:
            _one_more(np.zeros(1, np.int64))
            return True
        reason = "numba is not installed"
    except Exception as error:
        reason = f"numba cannot compile here: {error}"
    warnings.warn(f"{reason}; the batched executor runs in plain torch on the CPU, which is slower", stacklevel=3)
    return False


def call(loop: Callable[..., Any], *args: Any) -> Any:
    """A compiled loop over tensors, without gaps, for which it would be compiled anew; what it returns as tensors."""
    result = loop(*(arg.contiguous().numpy() if isinstance(arg, Tensor) else arg for arg in args))
    return tuple(map(torch.from_numpy, result)) if isinstance(result, tuple) else torch.from_numpy(result)


def on_host(loop: Callable[..., Any]) -> Callable[..., Any]:
    """A loop over NumPy arrays, as Python runs it where nothing can be compiled."""
    return loop if compiles() else _written(loop)


@cache
def _written(loop: Callable[..., Any]) -> Callable[..., Any]:
    """A loop as it was written, and with it all that it calls: by the names of its module it would call compiled ones.
    Numbers wrap around without a warning, as in compiled loops."""
    function: Any = _WRITTEN[id(loop)][1]
    names = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    called = {name: _written(value) for name, value in names.items() if id(value) in _WRITTEN}
    written = FunctionType(function.__code__, {**function.__globals__, **called}, function.__name__)
    return np.errstate(over="ignore")(written)
