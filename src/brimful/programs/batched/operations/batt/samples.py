"""What a batt reads from all demonstration pairs of a task."""

from __future__ import annotations

from typing import Any

from ...cells import color_counts
from ...columns import Column, Grids, Ints, Lists, Tuples
from ...kernels import Computed, batched
from ...segments import any_of, as_numbers
from .views import plain


@batched("batt.batch_process_samples_gpu")
def batch_process_samples_gpu(machine: Any, samples: Column) -> Computed | None:
    match samples:
        case Lists(elements=Lists(elements=Grids() as grids, unordered=False) as pairs, unordered=False):
            odd = any_of(pairs.sizes != 2, samples.offsets)
        case _:
            return None
    if not grids.rows:
        return None
    parts, reserved = list[Column](), 4 * samples.sizes
    for number in range(2):
        of = grids.take((pairs.offsets[:-1] + number).clamp(max=grids.rows - 1))
        distinct, _, offsets = color_counts(of.cells, of.offsets)
        colors = Lists(Ints(as_numbers(distinct)), offsets[samples.offsets], False)
        parts += [Lists(of, samples.offsets, False), colors]
        reserved = reserved + colors.sizes
    before, before_colors, after, after_colors = parts
    return plain(Computed(Tuples((before, after, before_colors, after_colors)), reserved=reserved), odd)
