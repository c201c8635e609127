"""The batched forms of operations, by kind. Importing this registers them all."""

from . import containers, higher_order, scalars

__all__ = ["containers", "higher_order", "scalars"]
