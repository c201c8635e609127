"""Imported where jobs are forked: what libraries do when they are first used, which would take each job seconds."""

import importlib

import pyarrow as pa

from ...data.database.xxhash import xxh64

pa.array([0])  # imports pandas, where it is installed
xxh64(b"")  # loads what numba compiled
for name in ("matplotlib.backends.backend_agg", "matplotlib.figure"):  # of the pictures of reports
    importlib.import_module(name)
