"""The batched forms of operations, by kind. Importing this registers them all."""

from . import (
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

__all__ = [
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
