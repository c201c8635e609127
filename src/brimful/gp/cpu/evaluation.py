"""The likelihood and its derivatives as a loop of its own, which the others call by its address.

That way a second process can compile it while the first compiles them. Nothing here imports torch, which would take as
long as compiling half of it.
"""

# pyright: reportUnusedFunction=false
import contextlib
import functools
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending, types

from ...core.base.compilers.numba_cache import is_missing
from ...core.base.compilers.second_process import second_process
from .likelihood import WORKSPACE, derivatives, evaluate, evaluate_noise
from .simd_lanes import entry_point

ALL, VALUE, NOISE, DERIVATIVES = range(4)
"""What to evaluate: the likelihood with what its derivatives need, or alone; the same where only the noise has changed
since; or its derivatives."""

_extending: Any = extending


_ARGUMENTS = (types.int64, WORKSPACE.type, types.Array(types.int64, 2, "C"))
_SIGNATURE = types.none(*_ARGUMENTS)


@entry_point(no_cpython_wrapper=True)
def _evaluation(what, workspace, factors):
    if what == DERIVATIVES:
        derivatives(workspace)
    elif what == NOISE:
        evaluate_noise(workspace)
    else:
        evaluate(workspace, factors, what == ALL)


def evaluation_compiling() -> contextlib.AbstractContextManager[Callable[[], None]]:
    """Compiles it in a second process while the block runs, unless it is on disk; yields what waits for that."""
    if is_missing(_evaluation, _SIGNATURE):
        return second_process(__name__, evaluation_address.__name__)
    return contextlib.nullcontext(lambda: None)


@functools.cache
def evaluation_address() -> int:
    """Its address. Compiles it, unless it is on disk."""
    _evaluation.compile(_SIGNATURE)
    compiled = _evaluation.overloads[_ARGUMENTS]
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)


@_extending.intrinsic
def evaluate_at(_context: Any, _address: Any, _what: Any, _workspace: Any, _factors: Any) -> Any:
    """Calls it."""

    def call(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        function = context.call_conv.get_function_type(types.none, _ARGUMENTS)
        pointer = builder.inttoptr(given[0], ir.PointerType(function))
        context.call_conv.call_function(builder, pointer, types.none, _ARGUMENTS, given[1:])  # nothing in it raises
        return context.get_dummy_value()

    return types.none(types.int64, *_ARGUMENTS), call
