"""Datasets as batches on the device, in one order, from wherever their rows fit."""

from . import database
from .database import postgres
from .dataset import Source
from .decoded import Decoded
from .loader import Loader, loader
from .ragged import Padded, Ragged
from .shuffle.order import Padding
from .sources import source
from .statistics import Moments, standardize, statistics
from .subset import Subset, split

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
