"""Datasets as batches on the device, in one order, from wherever their rows fit."""

from typing import TYPE_CHECKING

from ..core.base.lazy import lazy_names

if TYPE_CHECKING:
    from . import database
    from .database import postgres
    from .dataset import Source
    from .decoded import Decoded
    from .loading import Loader, loader
    from .moments import Moments, standardize, statistics
    from .ragged import Padded, Ragged
    from .shuffle.order import Padding
    from .sources import source
    from .subset import Subset, split
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Decoded",
    "Loader",
    "Moments",
    "Padded",
    "Padding",
    "Ragged",
    "Source",
    "Subset",
    "database",
    "loader",
    "postgres",
    "source",
    "split",
    "standardize",
    "statistics",
]
