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
from numba.core.typing import templates

from ...core.base.compilers import numba_parts
from ...core.base.compilers.numba_cache import cached_njit

WIDTH = 4
"""Lanes: what the registers of most processors hold."""

_HERE = Path(__file__).parent
_FILES = [
    *sorted(_HERE.glob("*.py")),
    _HERE.parent / "model" / "shapes.py",
    _HERE.parent / "optimize" / "scoring.py",
    Path(str(numba_parts.__file__)),
]
_VERSION = hashlib.blake2b(b"".join(item.read_bytes() for item in _FILES), digest_size=8).hexdigest()


def compiled(function: Any) -> Any:
    """For functions that only compiled ones call. Nothing in them may be reordered: what is done for one lane after
    another would come out differently from lane to lane, and a task's result would depend on the lane it was in. (A
    product and a sum of lanes may become one, which is the same for all of them.) Arrays are not counted in them, which
    halves the code: they may make none."""
    return numba_parts.part(error_model="numpy", _nrt=False)(function)


def inlined(function: Any) -> Any:
    """The same, for short ones."""
    return numba_parts.part(error_model="numpy", _nrt=False, forceinline=True)(function)


def entry_point(**settings: Any) -> Any:
    """For functions that Python calls, with addresses of what is lent to them, from any thread. Compiles them, or finds
    them compiled on disk under their name, which says of which version of all files it is: numba looks only whether the
    function's own file has changed, and not those of what it calls or takes from."""

    def compiled(function: Any) -> Any:
        function.__qualname__ += f"_{_VERSION}"
        return cached_njit(error_model="numpy", nogil=True, no_cfunc_wrapper=True, _nrt=False, **settings)(function)

    return compiled


@inlined
def larger(a, b):
    """`max` of two numbers. (numba makes functions of its own of that, with machine code, for each pair of types.)"""
    return b if b > a else a


@inlined
def smaller(a, b):
    """`min` of two numbers."""
    return b if b < a else a


_intrinsic: Any = extending.intrinsic
_templates: Any = templates
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


class Rows(types.Type):
    """The type of the rows of an array, without its shape: functions that take it are compiled once for all shapes."""


ROWS = Rows(f"Rows{WIDTH}")


@extending.register_model(Rows)
class _RowsModel(extending.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR.as_pointer())


def _first_row(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    if kind == ROWS:
        return array
    return builder.bitcast(context.make_array(kind)(context, builder, array).data, _VECTOR.as_pointer())


def _address(context: Any, builder: Any, kind: Any, array: Any, row: Any) -> Any:
    return builder.gep(_first_row(context, builder, kind, array), [row])


@_intrinsic
def rows(_context: Any, array: Any) -> Any:
    """The rows of an array, which must stay in use."""
    return ROWS(array), lambda context, builder, signature, given: _first_row(
        context, builder, signature.args[0], given[0]
    )


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


@_intrinsic
def times_power(_context: Any, value: Any, exponent: Any) -> Any:
    """The numbers times 2 to the integers that are the last bits of `exponent`, as a sum with 1.5 * 2^52 leaves them;
    the result must be neither too large nor too small for a number."""

    def make(_: Any, builder: Any, __: Any, given: Any) -> Any:
        whole = ir.VectorType(ir.IntType(64), WIDTH)
        bits, power = (builder.bitcast(item, whole) for item in given)
        moved = builder.shl(power, ir.Constant(whole, [52] * WIDTH))
        return builder.bitcast(builder.add(bits, moved), _VECTOR)

    return LANES(LANES, LANES), make


def _operator(operation: str, *symbols: Any) -> None:
    """Makes an operator, in both its forms, work on lanes with lanes, and on lanes with a number."""
    pairs = [(LANES, LANES), (LANES, types.float64), (types.float64, LANES)]

    def make(_context: Any, builder: Any, signature: Any, given: Any) -> Any:
        a, b = (
            value if kind == LANES else _spread(builder, value)
            for kind, value in zip(signature.args, given, strict=True)
        )
        return getattr(builder, operation)(a, b, flags=_FUSED)

    class Template(_templates.ConcreteTemplate):
        cases = tuple(LANES(*pair) for pair in pairs)

    for symbol in symbols:
        _templates.infer_global(symbol)(Template)
        for pair in pairs:
            extending.lower_builtin(symbol, *pair)(make)


_operator("fadd", operator.add, operator.iadd)
_operator("fsub", operator.sub, operator.isub)
_operator("fmul", operator.mul, operator.imul)
_operator("fdiv", operator.truediv, operator.itruediv)
