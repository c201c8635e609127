"""The batched forms of the operations that only a batt has, by kind. Importing this registers them all."""

from . import colors, containers, extents, objects, painting, samples, scalars, transforms

from . import knows_nan  # isort: skip  # of those that are registered

__all__ = ["colors", "containers", "extents", "knows_nan", "objects", "painting", "samples", "scalars", "transforms"]
