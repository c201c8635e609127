"""The batched forms of operations, by kind. Importing this registers them all."""

from . import higher_order

__all__ = ["higher_order"]
