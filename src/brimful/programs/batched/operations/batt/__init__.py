"""The batched forms of the operations that only a batt has, by kind. Importing this registers them all."""

from . import colors, containers, extents, objects, painting, samples, scalars, transforms

__all__ = ["colors", "containers", "extents", "objects", "painting", "samples", "scalars", "transforms"]
