"""What the service keeps in PostgreSQL: jobs, their events and metrics, tokens, uploads and settings."""

from .pool import Pool
from .store import Store

__all__ = ["Pool", "Store"]
