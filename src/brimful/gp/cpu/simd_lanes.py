"""SIMD lanes: four float64 numbers, one for each of four tasks, that compiled code loads, stores and computes with as
one.

In an array the lanes are the last axis, and `load` and `store` take the index of a row among all rows of lanes. One
instruction works on all lanes at once, and no lane affects another.
"""

# pyright: reportUnusedFunction=false
import hashlib
import math
import operator
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from ...core.base.numba_cache import cached_njit

WIDTH = 4
"""Lanes: what the registers of most processors hold."""

_HERE = Path(__file__).parent
_FILES = [*sorted(_HERE.glob("*.py")), _HERE.parent / "model" / "kernels.py", _HERE.parent / "optimize" / "scoring.py"]
_VERSION = hashlib.blake2b(b"".join(item.read_bytes() for item in _FILES), digest_size=8).hexdigest()


def _compile(function: Any, **settings: Any) -> Any:
    """Compiles a function, or finds it compiled on disk under its name. The name says of which version of all files it
    is: numba looks only whether the function's own file has changed, and not those of what it calls or takes from."""
    function.__qualname__ += f"_{_VERSION}"
    return cached_njit(error_model="numpy", **settings)(function)


def compiled(function: Any) -> Any:
    """For functions that only compiled ones call. Nothing in them may be reordered: what is done for one lane after
    another would come out differently from lane to lane, and a task's result would depend on the lane it was in. (A
    product and a sum of lanes may become one, which is the same for all of them.)"""
    return _compile(function, no_cpython_wrapper=True)


def inlined(function: Any) -> Any:
    """The same, for short ones."""
    return _compile(function, no_cpython_wrapper=True, forceinline=True)


def entry_point(function: Any) -> Any:
    """For functions that Python calls, from any thread."""
    return _compile(function, nogil=True)


_intrinsic: Any = extending.intrinsic
_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
_NUMBER = ir.IntType(32)
_FUSED = ("contract",)  # a product and a sum in one; sums stay in their order, so that tasks do not depend on others


class Lanes(types.Type):
    """The type of them."""


LANES = Lanes(f"Lanes{WIDTH}")


@extending.register_model(Lanes)
class _Model(extending.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _address(context: Any, builder: Any, kind: Any, array: Any, row: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [builder.mul(row, row.type(WIDTH))]), _VECTOR.as_pointer())


@_intrinsic
def load(_context: Any, array: Any, row: Any) -> Any:
    """The lanes of a row."""
    return LANES(array, types.intp), lambda context, builder, signature, given: builder.load(
        _address(context, builder, signature.args[0], *given), align=8
    )


@_intrinsic
def store(_context: Any, array: Any, row: Any, value: Any) -> Any:
    """Makes them the lanes of a row."""

    def make(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        builder.store(given[2], _address(context, builder, signature.args[0], *given[:2]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, LANES), make


@_intrinsic
def borrow(_context: Any, arrays: Any) -> Any:
    """A tuple of arrays that are not counted: every call that is given them would count each of them up and down,
    which takes longer than most calls. They last as long as the arrays that were given, which must stay in use."""

    def make(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        lent = given[0]
        for position, kind in enumerate(signature.args[0].types):
            if isinstance(kind, types.Array):
                array = context.make_array(kind)(context, builder, builder.extract_value(lent, position))
                array.meminfo = ir.Constant(array.meminfo.type, None)
                lent = builder.insert_value(lent, array._getvalue(), position)
        return lent

    return arrays(arrays), make


def _spread(builder: Any, number: Any) -> Any:
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, _NUMBER(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_NUMBER, WIDTH), [0] * WIDTH))


@_intrinsic
def broadcast(_context: Any, number: Any) -> Any:
    """The same number in every lane."""
    return LANES(types.float64), lambda _, builder, __, given: _spread(builder, given[0])


@_intrinsic
def maximum(_context: Any, value: Any, least: Any) -> Any:
    """In each lane the larger of its number and another one."""

    def make(_: Any, builder: Any, __: Any, given: Any) -> Any:
        least = _spread(builder, given[1])
        return builder.select(builder.fcmp_ordered(">", given[0], least), given[0], least)

    return LANES(LANES, types.float64), make


def _sqrt(builder: Any, value: Any) -> Any:
    kind = ir.FunctionType(_VECTOR, [_VECTOR])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{WIDTH}f64"), [value])


@_intrinsic
def sqrt(_context: Any, value: Any) -> Any:
    """The square root."""
    return LANES(LANES), lambda _, builder, __, given: _sqrt(builder, given[0])


@_intrinsic
def rsqrt(_context: Any, value: Any) -> Any:
    """One over the square root; NaN where there is none."""

    def make(_: Any, builder: Any, __: Any, given: Any) -> Any:
        zero, nan = (ir.Constant(_VECTOR, [item] * WIDTH) for item in (0.0, math.nan))
        result = builder.fdiv(_spread(builder, ir.Constant(ir.DoubleType(), 1.0)), _sqrt(builder, given[0]))
        return builder.select(builder.fcmp_ordered(">", given[0], zero), result, nan)

    return LANES(LANES), make


def _operator(operation: str, *symbols: Any) -> None:
    """Makes an operator, in both its forms, work on lanes with lanes, and on lanes with a number."""

    @_intrinsic
    def both(_context: Any, a: Any, b: Any) -> Any:
        return LANES(LANES, LANES), lambda _, builder, __, given: getattr(builder, operation)(*given, flags=_FUSED)

    def choose(a, b):
        if isinstance(a, Lanes) and isinstance(b, Lanes):
            return lambda a, b: both(a, b)
        if isinstance(a, Lanes) and isinstance(b, types.Float):
            return lambda a, b: both(a, broadcast(b))
        if isinstance(a, types.Float) and isinstance(b, Lanes):
            return lambda a, b: both(broadcast(a), b)
        return None

    for symbol in symbols:
        extending.overload(symbol)(choose)


_operator("fadd", operator.add, operator.iadd)
_operator("fsub", operator.sub, operator.isub)
_operator("fmul", operator.mul, operator.imul)
_operator("fdiv", operator.truediv, operator.itruediv)
