"""Named tuples of arrays that compiled functions pass to each other by one pointer.

numba passes a tuple as all the numbers of its arrays, several hundred of them, and counts each array up and down at
every call; compiling that takes longer than all the rest. A borrowed tuple is a pointer to one that its owner keeps,
and its arrays are not counted: they last as long as those that were lent, which must stay in use.

Python lends them too: a `Layout` writes a tuple into memory as compiled functions read it, so that what Python calls
takes addresses alone, and is compiled once for all arrays.
"""

# pyright: reportUnusedFunction=false
import hashlib
import math
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numba import extending, types
from numba.core import cgutils
from numba.core.typing import templates

_extending: Any = extending
_templates: Any = templates


class Borrowed(types.Type):
    """The type of a pointer to a named tuple, `fields`."""

    def __init__(self, fields: Any) -> None:
        self.fields = fields
        digest = hashlib.blake2b(str(fields).encode(), digest_size=6).hexdigest()
        super().__init__(f"Borrowed({fields.instance_class.__name__}_{digest})")


@_extending.register_model(Borrowed)
class _Model(_extending.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, manager.lookup(kind.fields).get_value_type().as_pointer())


@_templates.infer_getattr
class _Fields(_templates.AttributeTemplate):
    key = Borrowed

    def generic_resolve(self, kind: Any, name: str) -> Any:
        names = kind.fields.fields
        return kind.fields.types[names.index(name)] if name in names else None


@_extending.lower_getattr_generic(Borrowed)
def _get_field(context: Any, builder: Any, kind: Any, pointer: Any, name: str) -> Any:
    position = kind.fields.fields.index(name)
    field, address = kind.fields.types[position], cgutils.gep_inbounds(builder, pointer, 0, position)
    if not isinstance(field, types.Array):
        return builder.load(address)
    there = context.make_array(field)(context, builder, ref=address)
    array = context.make_array(field)(context, builder)  # without what counts its uses
    for part in ("nitems", "itemsize", "data", "shape", "strides"):
        setattr(array, part, getattr(there, part))
    return array._getvalue()


class Lent(NamedTuple):
    """A tuple in memory: its address, and what must stay in use as long as it is."""

    address: int
    memory: Any


_TYPES: dict[str, tuple[Any, Any]] = {
    "f": (np.dtype(np.float64), types.float64),
    "i": (np.dtype(np.int64), types.int64),
    "b": (np.dtype(np.bool_), types.boolean),
}
_ALIGNMENT = 64  # bytes, at which working arrays begin: a line of the cache


class Layout:
    """How the fields of a named tuple lie in memory.

    Args:
        kind: the named tuple.
        fields: of each field the type, `f`loat64, `i`nt64 or `b`ool, and the number of its axes, 0 for a number.

    Attributes:
        type: numba's type of a pointer to such a tuple.
        at: for compiled functions, the tuple at an address.
    """

    def __init__(self, kind: Any, fields: str) -> None:
        self._fields = [(*_TYPES[code[0]], int(code[1:])) for code in fields.split()]
        members = [types.Array(item, axes, "C") if axes else item for _, item, axes in self._fields]
        self.type = Borrowed(types.NamedTuple(members, kind))
        self.at = _extending.intrinsic(self._at)

    def _at(self, _context: Any, _address: Any) -> Any:
        def cast(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
            return builder.inttoptr(given[0], context.get_value_type(self.type))

        return self.type(types.int64), cast

    def lend(self, values: Iterable[Any]) -> Lent:
        """A tuple of arrays, which must be contiguous and of the types said, and of numbers."""
        words: list[int] = []
        for (item, _, axes), value in zip(self._fields, values, strict=True):
            if not axes:
                words.append(_word(item, value))
                continue
            if value.dtype != item or value.ndim != axes or not value.flags.c_contiguous:
                raise TypeError(f"an array is {value.dtype} of {value.ndim} axes, not contiguous {item} of {axes}")
            words += _array(value.ctypes.data, value.shape, item.itemsize)
        return _written(words, values)

    def make(self, values: Iterable[Any]) -> Lent:
        """The same, of new arrays of zeros, in one piece of memory, of which the shapes are given."""
        shapes = list(values)
        sizes = [
            -(-math.prod(shape) * item.itemsize // _ALIGNMENT) * _ALIGNMENT if axes else 0
            for (item, _, axes), shape in zip(self._fields, shapes, strict=True)
        ]
        memory = np.zeros(sum(sizes) + _ALIGNMENT, np.uint8)
        place, words = -(-memory.ctypes.data // _ALIGNMENT) * _ALIGNMENT, []
        for (item, _, axes), shape, size in zip(self._fields, shapes, sizes, strict=True):
            words += _array(place, shape, item.itemsize) if axes else [_word(item, shape)]
            place += size
        return _written(words, memory)


def _word(item: Any, value: Any) -> int:
    return struct.unpack("=q", struct.pack("=d", value))[0] if item.kind == "f" else int(value)


def _array(place: int, shape: tuple[int, ...], item: int) -> list[int]:
    """An array as numba has it: no owner, how many numbers, their bytes, where they are, shape, strides."""
    strides = [item]
    for side in reversed(shape[1:]):
        strides.insert(0, strides[0] * side)
    return [0, 0, math.prod(shape), item, place, *shape, *strides]


def _written(words: list[int], memory: Any) -> Lent:
    written = np.array(words, np.int64)
    return Lent(written.ctypes.data, (written, memory))
