"""Which operations know NaN in which arguments: those that only move what is there, those that compare as tuples and
sets do, by identity first, and those of which the kernels say what NaN gives.

Not here are operations that compare numbers themselves, or calculate with them: NaN equals no number, is neither
smaller nor greater than any, and what is calculated of it is another NaN.
"""

from __future__ import annotations

from ...kernels import KERNELS, KNOWS_NAN

_MOVED = (
    "identity rot90 rot180 rot270 trim tophalf bottomhalf lefthalf righthalf hupscale vupscale downscale batt.crop "
    "batt.hsplit batt.vsplit batt.hmirror_t batt.vmirror_t batt.dmirror_t batt.cmirror_t batt.mir_rot_t "
    "batt.upscale_t batt.get_nth_t batt.get_nth_f batt.first batt.first_t batt.first_f batt.last batt.last_t "
    "batt.last_f first last totuple size merge initset batt.height_t batt.width_t batt.shape_t batt.portrait_t "
    "batt.square_t asindices"
)
_MOVED_TWICE = "astuple batt.astuple hconcat vconcat combine batt.combine_f"
_BY_IDENTITY = "difference batt.difference_tuple intersection contained"
_ELEMENTS = "batt.sfilter_f batt.mfilter_t batt.sfilter_t batt.mfilter sizefilter batt.sizefilter batt.sizefilter_t"
_LOCATIONS = (
    "batt.shift batt.normalize batt.normalize_o batt.normalize_i batt.toindices batt.toindices_i batt.toindices_o "
    "batt.hmirror_f batt.vmirror_f batt.dmirror_f batt.cmirror_f batt.mir_rot_f batt.backdrop batt.box batt.inbox "
    "batt.outbox batt.bordering batt.delta batt.corners batt.corner batt.col_row"
)
_OF_TWO_PATCHES = "batt.hmatching batt.vmatching batt.manhattan batt.gravitate batt.position batt.adjacent"
_COLORS = (
    "batt.mostcolor batt.mostcolor_t batt.mostcolor_f batt.leastcolor batt.leastcolor_t batt.leastcolor_f batt.palette "
    "batt.palette_t batt.palette_f batt.p_g batt.p_o batt.numcolors batt.numcolors_t batt.numcolors_f batt.colorcount "
    "batt.colorcount_t batt.colorcount_f batt.get_color_rank_t batt.get_color_rank_f batt.color batt.colorfilter "
    "batt.objects batt.o_g"
)

_TABLE = {
    (0,): f"{_MOVED} {_ELEMENTS} {_LOCATIONS} {_COLORS} batt.recolor_i",
    (1,): "batt.apply_t batt.apply_f batt.mapply batt.mapply_t batt.mapply_f apply mapply",
    (0, 1): f"{_MOVED_TWICE} {_BY_IDENTITY} {_OF_TWO_PATCHES} equality batt.f_ofcolor batt.paint batt.cover "
    "batt.toobject batt.subgrid batt.recolor batt.recolor_o batt.move",
    (0, 2): "replace",
    (0, 1, 2): "batt.fill batt.underfill",
}

for _known, _names in _TABLE.items():
    KNOWS_NAN.update(dict.fromkeys(_names.split(), frozenset(_known)))
assert KNOWS_NAN.keys() <= KERNELS.keys(), KNOWS_NAN.keys() - KERNELS.keys()
