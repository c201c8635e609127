"""The batched forms of operations, by kind. Importing this registers them all."""

from . import (
    all_pairs,
    colors,
    containers,
    grids,
    higher_order,
    lines,
    mapping,
    objects,
    painting,
    patches,
    periods,
    relations,
    scalars,
    sets,
)

from . import batt  # isort: skip  # made of the others


__all__ = [
    "all_pairs",
    "batt",
    "colors",
    "containers",
    "grids",
    "higher_order",
    "lines",
    "mapping",
    "objects",
    "painting",
    "patches",
    "periods",
    "relations",
    "scalars",
    "sets",
]
