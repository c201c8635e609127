"""How operations run in the batched executor, on a CPU and on a GPU, by what their kernels call."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from types import FunctionType
from typing import Any, NamedTuple

from ..batched import compiled, gpu
from ..batched.evaluation import executor as _executor  # noqa: F401  # registers the kernels
from ..batched.kernels import kernel_of, meaning
from ..language.operation import Operation

_CLOSURES = frozenset({"compose", "chain", "fork", "matcher", "rbind", "lbind", "power"})
_BATCHED = compiled.__name__.rpartition(".")[0]


class Form(Enum):
    """How an operation runs."""

    LOOP = "compiled loop"
    """Over all rows, by loops that numba compiles; in torch where there is no numba."""
    TRITON = "Triton"
    """Over all rows of a GPU, by kernels in Triton with torch around them; in torch where there is no Triton."""
    TORCH = "torch"
    """Over all rows."""
    CLOSURE = "closure"
    """It makes a function: that is known before anything is computed, and what it calls runs over all rows."""
    ROWS = "row by row"
    """In plain Python."""


class Forms(NamedTuple):
    """How an operation runs on either kind of device."""

    cpu: Form
    gpu: Form

    @property
    def fallback(self) -> str:
        """What takes over where that cannot be: where nothing can be compiled, and for rows that no column holds."""
        if self.cpu is Form.CLOSURE:
            return "row by row, where functions differ from row to row"
        if self.cpu is Form.ROWS:
            return ""
        return "torch; row by row" if {self.cpu, self.gpu} & {Form.LOOP, Form.TRITON} else "row by row"


def forms_of(operation: Operation) -> Forms:
    """How an operation runs in the batched executor."""
    kernel = operation.batched or kernel_of(operation)
    if meaning(operation) in _CLOSURES:
        return Forms(Form.CLOSURE, Form.CLOSURE)
    if kernel is None:
        return Forms(Form.ROWS, Form.ROWS)
    loops, kernels = (_asks(kernel, question) for question in (compiled.usable, gpu.has_kernels))
    return Forms(Form.LOOP if loops else Form.TORCH, Form.TRITON if kernels else Form.TORCH)


def _asks(kernel: Callable[..., Any], question: Callable[..., bool]) -> bool:
    """Whether a kernel, or something that it calls, asks whether compiled code is usable."""
    seen, waiting = set[int](), [kernel]
    while waiting:
        function = waiting.pop()
        if function is question:
            return True
        if id(function) in seen or not isinstance(function, FunctionType):
            continue
        seen.add(id(function))
        names = function.__globals__
        for name in _names(function.__code__):
            value = names.get(name)
            if value is not None and str(getattr(value, "__module__", "")).startswith(_BATCHED):
                waiting.append(value)
            elif str(getattr(value, "__name__", "")).startswith(_BATCHED):  # a module: what is named of it
                waiting += [vars(value)[part] for part in _names(function.__code__) if part in vars(value)]
        waiting += [cell.cell_contents for cell in function.__closure__ or () if callable(cell.cell_contents)]
        waiting += [value for value in function.__defaults__ or () if callable(value)]
    return False


def _names(code: Any) -> set[str]:
    """The names that code uses, with those of the code inside it."""
    return set(code.co_names).union(*(_names(part) for part in code.co_consts if hasattr(part, "co_names")))
