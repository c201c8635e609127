"""The working memory of compiled functions, and loops on it that are called by their address: those that call them are
compiled without them, in another process."""

# pyright: reportUnusedFunction=false
import functools
from collections import namedtuple
from typing import Any

from llvmlite import ir
from numba import extending, types

from ...core.base.compilers.numba_cache import is_missing
from .borrowed import Layout
from .simd_lanes import WIDTH, entry_point, inlined, larger

_extending: Any = extending

Workspace = namedtuple(
    "Workspace",
    "count there square product y H known theta K shapes inverse scale dK A W G a Z U parts gradient info beta cross "
    "small right C solution mean_free points evaluation covariance",
)
"""Working memory of one thread, for tasks of up to N points. The last axis is the lanes', but for `count`, `small` and
what follows it, which serve one lane at a time.

count: points of each lane. there: 1 for a point, 0 for a row that only fills. theta: where to evaluate. parts: the
quadratic form, and the log determinant. a: the inverse times what is left of the targets. Z: targets and regressors
times L^-1. U: the derivatives times a, times L^-1. beta: the mean's coefficients. points: those of a task
that is loaded. evaluation, covariance: addresses of the loops that compute them."""

WORKSPACE = Layout(
    Workspace,
    "i1 f2 f3 f2 f2 f3 f2 f2 f2 f3 f2 f1 f3 f3 f3 f2 f2 f3 f3 f2 f2 f3 f2 f3 f2 f1 f2 f1 b2 f2 i0 i0",
)

_ARGUMENTS = (types.int64, WORKSPACE.type, types.Array(types.int64, 2, "C"))
_SIGNATURE = types.none(*_ARGUMENTS)


@inlined
def side(workspace):
    """Rows that the lanes need, a multiple of four."""
    most = 1
    for lane in range(WIDTH):
        most = larger(most, workspace.count[lane])
    return -(-most // 4) * 4


class Loop:
    """A loop of which the address is called.

    Args:
        function: of what to do, a number; the workspace; and the kernel, as `covariance` takes it.
    """

    def __init__(self, function: Any) -> None:
        self._compiled = entry_point(no_cpython_wrapper=True)(function)

    def is_missing(self) -> bool:
        """Whether it has yet to be compiled, and would then be found on disk."""
        return is_missing(self._compiled, _SIGNATURE)

    @functools.cached_property
    def address(self) -> int:
        """Its address. Compiles it, unless it is on disk."""
        self._compiled.compile(_SIGNATURE)
        compiled = self._compiled.overloads[_ARGUMENTS]
        return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)


@_extending.intrinsic
def call_at(_context: Any, _address: Any, _what: Any, _workspace: Any, _factors: Any) -> Any:
    """Calls the loop at an address."""

    def call(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        function = context.call_conv.get_function_type(types.none, _ARGUMENTS)
        pointer = builder.inttoptr(given[0], ir.PointerType(function))
        context.call_conv.call_function(builder, pointer, types.none, _ARGUMENTS, given[1:])  # nothing in it raises
        return context.get_dummy_value()

    return types.none(types.int64, *_ARGUMENTS), call
