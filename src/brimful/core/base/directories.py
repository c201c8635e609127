"""Where Brimful keeps what belongs to the user."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def data_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """`brimful` in the user's data directory; for root, whose own is closed to the account that a database server
    runs under, `/var/lib/brimful`."""
    if os.geteuid() == 0:
        return Path("/var/lib/brimful")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "brimful"
    base = environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "brimful"


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """`$BRIMFUL_CACHE_DIR`, or `brimful` in the user's cache directory."""
    if own := environ.get("BRIMFUL_CACHE_DIR"):
        return Path(own)
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "brimful"
