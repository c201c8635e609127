"""The batched forms of operations, by kind. Importing this registers them all."""

from . import colors, containers, grids, higher_order, lines, objects, painting, patches, relations, scalars

__all__ = [
    "colors",
    "containers",
    "grids",
    "higher_order",
    "lines",
    "objects",
    "painting",
    "patches",
    "relations",
    "scalars",
]
