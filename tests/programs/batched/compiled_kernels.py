"""Compiles the Triton kernels for a card that need not be there; run by test_gpu_kernels.py, in a process
that does not interpret: the interpreter takes types as they come, and the compiler does not."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false
from collections.abc import Mapping

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from brimful.programs.batched.gpu import keys, layout, offsets, patches, records, segments, sets
from brimful.programs.batched.key_bits import BIAS, BITS, COLOR_BIAS, COORDINATE_LIMIT, FIELD
from brimful.programs.batched.loops.records import LARGE

_TYPES = {"rows": "i32", "number": "i32", "last": "i32", "wanted": "*u8", "cells": "*u8", "new": "*u8", "keep": "*u8"}
_BITS = {"BITS": BITS, "BIAS": BIAS, "FIELD": FIELD}


def build(kernel, out: str = "*i64", types: Mapping[str, str] = _TYPES, **constants: int) -> None:
    names = kernel.arg_names
    types = {name: "constexpr" if name in constants else types.get(name, "*i64") for name in names}
    types |= {"out": out} if "out" in names else {}
    source = ASTSource(kernel, types, {(names.index(name),): value for name, value in constants.items()})
    compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for count, head in ((1, 0), (2, 2)):
        build(records._number_lengths, "*i64", COUNT=count, HEAD=head, MOST=LARGE, BLOCK=256)
        build(records._write_numbers, "*u8", COUNT=count, BLOCK=256)
    build(records._write_flags, "*u8", BLOCK=256)
    build(records._grid_lengths, "*i64", BLOCK=256)
    build(records._write_grids, "*u8", LANES=16, BLOCK=1024)
    for kernel in (offsets._summed, offsets._summed_of, offsets._summed_areas, offsets._summed_sides):
        build(kernel, BLOCK=1024)
    build(sets._distinct, LONGEST=1 << 11, MANY=1 << 40, TILE=64)
    build(sets._member, types={"inside": "*u8"}, TILE=64)
    build(sets._kept_counts, BLOCK=256)
    build(sets._dense, BLOCK=256)
    for either in (0, 1):
        build(sets._in_order, INDEX=either, TILE=64)
        build(sets._compared, LARGER_FIRST=either, BLOCK=64)
        build(sets._kept, INDEX=either, BLOCK=256)
        build(keys._packed, COLORED=either, BITS=BITS, BIAS=BIAS, COLOR_BIAS=COLOR_BIAS, BLOCK=1024)
        build(keys._moved, types={"away": "*u8"}, MOVES=either, **_BITS, LIMIT=COORDINATE_LIMIT, BLOCK=256)
    build(keys._lines, BITS=BITS, BIAS=BIAS, COLOR_BIAS=COLOR_BIAS, BLOCK=256)
    build(keys._unpacked, **_BITS, BLOCK=1024)
    build(keys._topmost, **_BITS, BLOCK=256)
    grids = {"cells": "*i32", "a": "*i32", "b": "*i32", "last": "i32", "rows": "i32"}
    build(keys._painted, "*i32", grids, BITS=BITS, COLOR_BIAS=COLOR_BIAS, BLOCK=1024)
    build(layout._places, BLOCK=256)
    build(layout._sliced, BLOCK=256)
    build(patches._extents, types={"empty": "*u8"}, **_BITS, BLOCK=256)
    for limit in ("i32", "i64"):
        build(segments._beyond, "*u8", types={"number": limit, "rows": "i32"}, BLOCK=256)
    for sign in (1, -1):
        build(segments._extreme_color, types={"colors": "*i32"}, SIGN=sign, COLORS=64, BLOCK=256)
    for kernel in (layout._walked, layout._scaled, layout._beside, layout._above):
        build(kernel, "*i32", grids, BLOCK=256)
    print("compiled")
