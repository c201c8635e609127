"""Where patches of a batt lie, how large they are, and the locations that their bounding boxes give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...columns import Column, Grids, Ints, Pairs, Patches, PatchKind, key_of
from ...extents import Extent
from ...kernels import KERNELS, Computed, batched
from ...rows import select
from ...segments import sort_unique, totals
from .views import Patch, flag, indices_of, is_tuple, objects_of, of_arc, patch_of, places, plain, reach

_KINDS: dict[str, Callable[[Column], Patch | None]] = {"": patch_of, "_i": indices_of, "_o": objects_of}
"""By the ending of an operation, the patches that it is for."""


def _sided(name: str, read: Callable[[Extent], Column], endings: str = " _i _o", empty: bool = True) -> None:
    """Registers what operations read from a bounding box.

    Args:
        empty: whether empty patches run sequentially; the box of an empty one is 0 x 0.
    """
    for ending in endings.split(" "):
        of = _KINDS["" if ending == "_f" else ending]

        def kernel(machine: Any, column: Column, of: Any = of) -> Computed | None:
            patch = of(column)
            return None if patch is None else plain(Computed(read(reach(patch))), patch.empty if empty else None)

        batched(f"batt.{name}{ending}")(kernel)


_sided("uppermost", lambda box: Ints(box.top))
_sided("lowermost", lambda box: Ints(box.bottom))
_sided("leftmost", lambda box: Ints(box.left))
_sided("rightmost", lambda box: Ints(box.right))
_sided("ulcorner", lambda box: Pairs(box.top, box.left))
_sided("urcorner", lambda box: Pairs(box.top, box.right))
_sided("llcorner", lambda box: Pairs(box.bottom, box.left))
_sided("lrcorner", lambda box: Pairs(box.bottom, box.right))
_sided("height", lambda box: Ints(box.height), "_f _i _o", empty=False)
_sided("width", lambda box: Ints(box.width), "_f _i _o", empty=False)
_sided("shape", lambda box: Pairs(box.height, box.width), "_f", empty=False)
_sided("portrait", lambda box: Ints((box.height > box.width).to(torch.int64), True), "_f", empty=False)
_sided("center", lambda box: Pairs(box.top + box.height // 2, box.left + box.width // 2), "")


def _chosen(type: Column, *choices: Tensor) -> Tensor | None:
    """By the number of a row one of several values; the first for any other number."""
    if not isinstance(type, Ints):
        return None
    at = select((type.values >= 0) & (type.values < len(choices)), type.values, 0)
    return torch.stack(choices).gather(0, at[None])[0]


@batched("batt.corner")
def corner(machine: Any, column: Column, type: Column) -> Computed | None:
    patch = patch_of(column)
    if patch is None or not isinstance(type, Ints):
        return None
    box = reach(patch)
    i = _chosen(type, box.top, box.top, box.bottom, box.bottom)
    j = _chosen(type, box.left, box.right, box.left, box.right)
    return None if i is None or j is None else plain(Computed(Pairs(i, j)), patch.empty)


@batched("batt.col_row")
def col_row(machine: Any, column: Column, type: Column) -> Computed | None:
    patch = patch_of(column)
    if patch is None or not isinstance(type, Ints):
        return None
    box = reach(patch)
    side = _chosen(type, box.bottom, box.top, box.left, box.right)
    return None if side is None else plain(Computed(Ints(side)), patch.empty, (type.values < 0) | (type.values > 3))


@batched("batt.height_t")
def height_t(machine: Any, piece: Column) -> Computed | None:
    return plain(KERNELS["size"](machine, piece))


@batched("batt.height")
def height(machine: Any, piece: Column) -> Computed | None:
    return height_t(machine, piece) if is_tuple(piece) else KERNELS["batt.height_f"](machine, piece)


@batched("batt.width_t")
def width_t(machine: Any, piece: Column) -> Computed | None:
    return Computed(Ints(piece.width)) if isinstance(piece, Grids) else None


@batched("batt.width")
def width(machine: Any, piece: Column) -> Computed | None:
    return width_t(machine, piece) if is_tuple(piece) else KERNELS["batt.width_f"](machine, piece)


@batched("batt.shape_t")
def shape_t(machine: Any, piece: Column) -> Computed | None:
    return Computed(Pairs(piece.height, piece.width)) if isinstance(piece, Grids) else None


@batched("batt.shape")
def shape(machine: Any, piece: Column) -> Computed | None:
    return shape_t(machine, piece) if is_tuple(piece) else KERNELS["batt.shape_f"](machine, piece)


@batched("batt.portrait_t")
def portrait_t(machine: Any, piece: Column) -> Computed | None:
    return flag(piece.height > piece.width) if isinstance(piece, Grids) else None


@batched("batt.portrait")
def portrait(machine: Any, piece: Column) -> Computed | None:
    return portrait_t(machine, piece) if is_tuple(piece) else KERNELS["batt.portrait_f"](machine, piece)


@batched("batt.square_t")
def square_t(machine: Any, piece: Column) -> Computed | None:
    return plain(flag(piece.height == piece.width), piece.height == 0) if isinstance(piece, Grids) else None


@batched("batt.square_f")
def square_f(machine: Any, piece: Column) -> Computed | None:
    patch = patch_of(piece)
    if patch is None:
        return None
    box = reach(patch)
    return flag((box.height * box.width == patch.sizes) & (box.height == box.width))


@batched("batt.square")
def square(machine: Any, piece: Column) -> Computed | None:
    return square_t(machine, piece) if is_tuple(piece) else square_f(machine, piece)


def _line(column: Column, of: Callable[[Column], Patch | None], upright: bool) -> Computed | None:
    patch = of(column)
    if patch is None:
        return None
    box = reach(patch)
    long, thin = (box.height, box.width) if upright else (box.width, box.height)
    return flag((long == patch.sizes) & (thin == 1))


for _ending, _of in _KINDS.items():
    batched(f"batt.vline{_ending}")(lambda machine, patch, of=_of: _line(patch, of, True))
    batched(f"batt.hline{_ending}")(lambda machine, patch, of=_of: _line(patch, of, False))


@batched("batt.toindices")
def toindices(machine: Any, column: Column) -> Computed | None:
    patch = patch_of(column)
    if patch is None:
        return None
    if patch.color is None and len(patch.i):  # locations stay as they are: a tuple of them a tuple
        return plain(Computed(column), None if patch.unordered else patch.empty)
    return Computed(places(patch))


@batched("batt.toindices_i", "batt.normalize_t")
def as_it_is(machine: Any, column: Column) -> Computed | None:
    return Computed(column) if isinstance(column, Column) else None


@batched("batt.toindices_o")
def toindices_o(machine: Any, column: Column) -> Computed | None:
    patch = objects_of(column)
    return None if patch is None else Computed(places(patch))


of_arc("backdrop", arc="backdrop", patches=(0,))
of_arc("box", arc="box", patches=(0,))
of_arc("inbox", arc="inbox", patches=(0,))
of_arc("outbox", arc="outbox", patches=(0,))
of_arc("hmatching", arc="hmatching", patches=(0, 1), empty=False)
of_arc("vmatching", arc="vmatching", patches=(0, 1), empty=False)
of_arc("manhattan", arc="manhattan", patches=(0, 1))
of_arc("gravitate", arc="gravitate", patches=(0, 1))
of_arc("position", arc="position", patches=(0, 1))
of_arc("bordering", arc="bordering", patches=(0,))
of_arc("connect", arc="connect")
of_arc("shoot", arc="shoot")
of_arc("hfrontier", arc="hfrontier")
of_arc("dneighbors", arc="dneighbors")
of_arc("ineighbors", arc="ineighbors")
of_arc("neighbors", arc="neighbors")


@batched("batt.adjacent")
def adjacent(machine: Any, a: Column, b: Column) -> Computed | None:
    apart = KERNELS["batt.manhattan"](machine, a, b)
    if apart is None or not isinstance(apart.column, Ints):
        return None
    touch = Ints((apart.column.values == 1).to(torch.int64), True)
    return Computed(touch, None, apart.sequential, apart.reserved)


@batched("batt.delta")
def delta(machine: Any, column: Column) -> Computed | None:
    patch = patch_of(column)
    if patch is None or (patch.color is None and not patch.unordered):  # no tuple is subtracted from a set
        return None
    return plain(KERNELS["delta"](machine, places(patch)), patch.empty)


@batched("batt.corners")
def corners(machine: Any, column: Column) -> Computed | None:
    patch = patch_of(column)
    if patch is None:
        return None
    box = reach(patch)
    i = torch.stack([box.top, box.top, box.bottom, box.bottom], 1)
    j = torch.stack([box.left, box.right, box.left, box.right], 1)
    offsets = torch.arange(column.rows + 1, device=i.device) * 4
    where = Patches(*sort_unique(key_of(i, j).reshape(-1), offsets), PatchKind.INDICES)
    return plain(Computed(where), patch.empty)


@batched("batt.centerofmass")
def centerofmass(machine: Any, column: Column) -> Computed | None:
    patch = patch_of(column)
    if patch is None:
        return None
    indices, count = places(patch) if patch.unordered or patch.color is not None else None, patch.sizes.clamp(min=1)
    at = patch if indices is None else patch_of(indices)
    assert at is not None
    mean = [torch.div(totals(part, at.offsets), count, rounding_mode="floor") for part in (at.i, at.j)]
    return plain(Computed(Pairs(mean[0], mean[1])), patch.empty)
