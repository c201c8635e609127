"""The batched forms of operations, by kind. Importing this registers them all."""

from . import containers, grids, higher_order, lines, painting, patches, relations, scalars

__all__ = ["containers", "grids", "higher_order", "lines", "painting", "patches", "relations", "scalars"]
