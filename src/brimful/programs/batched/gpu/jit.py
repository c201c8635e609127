"""Kernels of rows that begin anywhere: one compiled form, whatever the addresses."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import triton

from ....core.base.compilers.activity import connect_triton

connect_triton()


def kernel(function: Callable[..., Any]) -> Any:
    """A kernel that is compiled once for the types of its tensors.

    Triton compiles a kernel anew for every combination of addresses that are a multiple of 16 bytes and that are not.
    Columns are often a part of a longer tensor, and what a program reads begins at an offset anyway, so that it would
    be the same code several times. Nor is a number of rows or a value worth another.
    """
    parameters = inspect.signature(function).parameters
    names = [name for name, of in parameters.items() if "constexpr" not in str(of.annotation)]
    numbers = [name for name in names if name in ("rows", "empty", "last", "number")]
    return triton.jit(do_not_specialize=numbers, do_not_specialize_on_alignment=names)(function)
