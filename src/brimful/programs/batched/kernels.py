"""The batched forms of operations, by name. An operation without one runs sequentially, row by row.

A kernel gets the machine, and for every argument a column (or a function value), all with the same rows. It returns a
`Computed`, or None where it has no form for such columns. For rows that other arguments failed on, or that a column
cannot hold, it is given something harmless, and what it returns there is not looked at: it must not raise for any
content of its columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from .columns import Column


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """What a kernel returns.

    Attributes:
        column: the values of all rows.
        failed: (R,) int8: the `Category` of the exception that the operation raises for a row; 0 where it does not.
        sequential: (R,) bool: rows that the kernel cannot do, and that run sequentially.
    """

    column: Column
    failed: Tensor | None = None
    sequential: Tensor | None = None


Kernel = Callable[..., Computed | None]

KERNELS: dict[str, Kernel] = {}


def batched(*names: str) -> Callable[[Kernel], Kernel]:
    """Registers a kernel as the batched form of operations."""

    def register(kernel: Kernel) -> Kernel:
        for name in names:
            KERNELS[name] = kernel
        return kernel

    return register
