"""Named tuples of arrays that compiled functions pass to each other by one pointer.

numba passes a tuple as all the numbers of its arrays, several hundred of them, and counts each array up and down at
every call; compiling that takes longer than all the rest. A borrowed tuple is a pointer to one that its owner keeps,
and its arrays are not counted: they last as long as those that were lent, which must stay in use.
"""

# pyright: reportUnusedFunction=false
import hashlib
from typing import Any

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


@_extending.intrinsic
def borrow(_context: Any, arrays: Any) -> Any:
    """A named tuple of arrays and numbers, borrowed for as long as the calling function runs."""
    return Borrowed(arrays)(arrays), lambda _, builder, __, given: cgutils.alloca_once_value(builder, given[0])


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
