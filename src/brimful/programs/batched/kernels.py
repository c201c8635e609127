"""The batched forms of operations, by what they mean. An operation without one runs sequentially, row by row.

What an operation means is its function, not its name: that of arc-dsl's operation, also where another vocabulary has it
under other names or in a safe version. An operation of the same name with another function gets no kernel of arc-dsl's.

A kernel gets the machine, and for every argument a column (or a function value), all with the same rows. It returns a
`Computed`, or None where it has no form for such columns. For rows that other arguments failed on, or that a column
cannot hold, it is given something harmless, and what it returns there is not looked at: it must not raise for any
content of its columns. Unless it is listed as one that knows NaN, it is given no row that holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ..language.operation import Operation
from ..vocabulary.arc import ARC
from ..vocabulary.batt import BATT
from .columns import Column
from .others import Others


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """What a kernel returns.

    Attributes:
        column: the values of all rows.
        failed: (R,) int8: the `Category` of the exception that the operation raises for a row; 0 where it does not.
        sequential: (R,) bool: rows that the kernel cannot do, and that run sequentially.
        reserved: (R,) how many elements the operation reserves (`vocabulary.bound`); None for none worth counting.
        boxed: the values of rows for which they have other forms than the column's.
    """

    column: Column
    failed: Tensor | None = None
    sequential: Tensor | None = None
    reserved: Tensor | None = None
    boxed: Others = field(default_factory=Others)

    def take(self, index: Tensor) -> Computed:
        """The rows of an index."""
        flags = [None if flag is None else flag[index] for flag in (self.failed, self.sequential, self.reserved)]
        return Computed(self.column.take(index), *flags, boxed=self.boxed.take(index, self.column.rows))


Kernel = Callable[..., Computed | None]

KERNELS: dict[str, Kernel] = {}
"""By meaning; see `meaning`."""


def _meanings() -> dict[Callable[..., Any], str]:
    known = {operation.function: name for name, operation in ARC.items()}
    for operation in BATT.values():
        plain = getattr(operation.function, "__wrapped__")  # noqa: B009  # of `steady`
        known[operation.function] = known.get(plain, f"batt.{plain.__name__}")
    return known


_MEANINGS = _meanings()


def meaning(operation: Operation) -> str | None:
    """What an operation does: the name of arc-dsl's operation that has its function, or `batt.` and a name for one that
    only a batt has. None for any other, whatever its name."""
    return _MEANINGS.get(operation.function)


def kernel_of(operation: Operation) -> Kernel | None:
    """The batched form of an operation."""
    return KERNELS.get(meaning(operation) or "")


KNOWS_NAN: dict[str, frozenset[int]] = {}
"""By meaning, the arguments in which a kernel knows NaN. Rows with NaN in any other one run sequentially."""


def known_nan(operation: Operation) -> frozenset[int]:
    """The arguments in which an operation's batched form knows NaN."""
    return frozenset() if operation.batched else KNOWS_NAN.get(meaning(operation) or "", frozenset())


def batched(*names: str) -> Callable[[Kernel], Kernel]:
    """Registers a kernel as the batched form of operations, by what they mean."""

    def register(kernel: Kernel) -> Kernel:
        for name in names:
            KERNELS[name] = kernel
        return kernel

    return register
