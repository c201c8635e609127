"""Patches made of patches: shifted, mirrored, enlarged, recolored. Endings: _i indices, _o objects, _f both."""

from __future__ import annotations

from itertools import product
from typing import Any as AnyValue

from ...language.types import IJ, Any, Element, Indices, Integer, Object, Patch, Piece, Tuple
from ..bound import reserve
from ..order import ordered
from .cells import bounds, cells
from .extents import (
    leftmost,
    leftmost_i,
    leftmost_o,
    lrcorner,
    toindices,
    toindices_o,
    ulcorner,
    uppermost,
    uppermost_i,
    uppermost_o,
)
from .grids import cmirror_t, dmirror_t, hmirror_t, upscale_t, vmirror_t
from .safety import safe


def _is_object(patch: AnyValue) -> bool:
    """Whether the elements of a patch are cells, by one of them; where they are not alike, unpacking them fails."""
    return len(next(iter(patch))) == 3


@safe
def shift(patch: Patch, directions: IJ) -> Patch:
    """A patch moved by a vector; as it is, for ()."""
    if not patch:
        return frozenset()
    if directions == ():
        return patch
    di, dj = ordered(directions)
    if _is_object(patch):
        return frozenset([(i + di, j + dj, c) for i, j, c in cells(patch)])
    return frozenset([(i + di, j + dj) for i, j in cells(patch)])


@safe
def normalize(indices: Indices) -> Indices:
    """A patch moved to the origin."""
    box = bounds(indices, 2, 3)
    if box is not None:
        return shift(indices, (-box[0], -box[2]))
    return indices if len(indices) == 0 else shift(indices, (-uppermost(indices), -leftmost(indices)))


@safe
def normalize_i(indices: Indices) -> Indices:
    """Indices moved to the origin."""
    return indices if len(indices) == 0 else shift(indices, (-uppermost_i(indices), -leftmost_i(indices)))


@safe
def normalize_o(obj: Object) -> Object:
    """An object moved to the origin."""
    return obj if len(obj) == 0 else shift(obj, (-uppermost_o(obj), -leftmost_o(obj)))


@safe
def normalize_t(piece: Tuple) -> Tuple:
    """A grid is at the origin already."""
    return piece


@safe
def hmirror_i(indices: Indices) -> Indices:
    """Indices mirrored top to bottom."""
    d = ulcorner(indices)[0] + lrcorner(indices)[0]
    return frozenset([(d - i, j) for i, j in cells(indices)])


@safe
def hmirror_o(obj: Object) -> Object:
    """An object mirrored top to bottom."""
    d = ulcorner(obj)[0] + lrcorner(obj)[0]
    return frozenset([(d - i, j, c) for i, j, c in cells(obj)])


@safe
def hmirror_f(patch: Patch) -> Patch:
    """A patch mirrored top to bottom."""
    d = ulcorner(patch)[0] + lrcorner(patch)[0]
    if _is_object(patch):
        return frozenset([(d - i, j, c) for i, j, c in cells(patch)])
    return frozenset([(d - i, j) for i, j in cells(patch)])


@safe
def hmirror(piece: Piece) -> Piece:
    """A grid or a patch mirrored top to bottom."""
    return hmirror_t(piece) if isinstance(piece, tuple) else hmirror_f(piece)


@safe
def vmirror_i(indices: Indices) -> Indices:
    """Indices mirrored left to right."""
    d = ulcorner(indices)[1] + lrcorner(indices)[1]
    return frozenset([(i, d - j) for i, j in cells(indices)])


@safe
def vmirror_o(obj: Object) -> Object:
    """An object mirrored left to right."""
    d = ulcorner(obj)[1] + lrcorner(obj)[1]
    return frozenset([(i, d - j, c) for i, j, c in cells(obj)])


@safe
def vmirror_f(patch: Patch) -> Patch:
    """A patch mirrored left to right; an empty one as it is."""
    if patch == frozenset():
        return patch
    d = ulcorner(patch)[1] + lrcorner(patch)[1]
    if _is_object(patch):
        return frozenset([(i, d - j, c) for i, j, c in cells(patch)])
    return frozenset([(i, d - j) for i, j in cells(patch)])


@safe
def vmirror(piece: Piece) -> Piece:
    """A grid or a patch mirrored left to right."""
    return vmirror_t(piece) if isinstance(piece, tuple) else vmirror_f(piece)


@safe
def dmirror_i(indices: Indices) -> Indices:
    """Indices mirrored at the diagonal of their bounding box."""
    a, b = ulcorner(indices)
    return frozenset([(j - b + a, i - a + b) for i, j in cells(indices)])


@safe
def dmirror_o(obj: Object) -> Object:
    """An object mirrored at the diagonal of its bounding box."""
    a, b = ulcorner(obj)
    return frozenset([(j - b + a, i - a + b, c) for i, j, c in cells(obj)])


@safe
def dmirror_f(patch: Patch) -> Patch:
    """A patch mirrored at the diagonal of its bounding box."""
    a, b = ulcorner(patch)
    if _is_object(patch):
        return frozenset([(j - b + a, i - a + b, c) for i, j, c in cells(patch)])
    return frozenset([(j - b + a, i - a + b) for i, j in cells(patch)])


@safe
def dmirror(piece: Piece) -> Piece:
    """A grid or a patch mirrored at the diagonal."""
    return dmirror_t(piece) if isinstance(piece, tuple) else dmirror_f(piece)


@safe
def cmirror_f(patch: Patch) -> Patch:
    """A patch mirrored at the other diagonal of its bounding box."""
    return vmirror_f(dmirror_f(vmirror_f(patch)))


@safe
def cmirror_i(indices: Indices) -> Indices:
    """Indices mirrored at the other diagonal of their bounding box."""
    return vmirror_f(dmirror_f(vmirror_f(indices)))


@safe
def cmirror_o(obj: Object) -> Object:
    """An object mirrored at the other diagonal of its bounding box."""
    return vmirror_f(dmirror_f(vmirror_f(obj)))


@safe
def cmirror(piece: Piece) -> Piece:
    """A grid or a patch mirrored at the other diagonal."""
    return cmirror_t(piece) if isinstance(piece, tuple) else cmirror_f(piece)


@safe
def mir_rot_f(patch: Patch, type: Integer) -> Any:
    """A patch mirrored: 0 top to bottom, 1 diagonal, 2 left to right, 3 other diagonal; as it is otherwise."""
    for number, mirror in enumerate((hmirror_f, dmirror_f, vmirror_f, cmirror_f)):
        if type == number:
            return mirror(patch)
    return patch


@safe
def upscale_f(obj: Object, factor: Integer) -> Object:
    """An object with every cell as a square of cells, its upper left corner in its place."""
    if len(obj) == 0:
        return frozenset()
    top, left = ulcorner(obj)
    larger = set()
    for i, j, c in cells(shift(obj, (-top, -left))):
        reserve(len(range(factor)) ** 2)
        for di, dj in product(range(factor), range(factor)):
            larger.add((i * factor + di, j * factor + dj, c))
    return shift(frozenset(larger), (top, left))


@safe
def upscale(element: Element, factor: Integer) -> Element:
    """A grid or an object with every cell as a square of cells."""
    return upscale_t(element, factor) if isinstance(element, tuple) else upscale_f(element, factor)


@safe
def recolor_i(color: Integer, indices: Indices) -> Object:
    """The object of one color at locations."""
    return frozenset([(i, j, color) for i, j in cells(indices)])


@safe
def recolor_o(color: Integer, obj: Object) -> Object:
    """An object in one color."""
    return frozenset([(i, j, color) for i, j in toindices_o(obj)])


@safe
def recolor(color: Integer, patch: Patch) -> Object:
    """A patch in one color."""
    return frozenset([(i, j, color) for i, j in cells(toindices(patch))])
