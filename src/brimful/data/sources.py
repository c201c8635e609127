"""From whatever the user has to rows that a loader can read."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..core.base.errors import InputError
from . import arrays, tables
from .columns import Columns
from .rows import Given, Rows, Source, chosen


def source(what: Any, columns: list[str] | None = None) -> Rows:
    """Understands a dataset, and knows its bytes, without loading it.

    Args:
        what: tensors or arrays (one, or a tuple or dict of them, `Ragged` among them), the path of a .npy, .npz or
            Parquet file (or a folder of Parquet files), or a `Source`.
        columns: only these fields, of a dict, a .npz or a Parquet file.
    """
    if isinstance(what, str | Path):
        return _file(Path(what), columns)
    if columns is not None:
        if not isinstance(what, dict):
            raise InputError(f"columns= is for a dict, a .npz or a Parquet file, and this is a {type(what).__name__}")
        what = {name: what[name] for name in chosen(what, columns)}
    if isinstance(what, Rows):
        return what
    if isinstance(what, Source) and not isinstance(what, torch.Tensor | np.ndarray):  # these have a `take` of their own
        return Given(what)
    return Columns(what)


def _file(path: Path, columns: list[str] | None) -> Rows:
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path")
    if path.suffix == ".npy":
        if columns is not None:
            raise InputError(f"{path} is one array without columns; leave columns= out")
        return Columns(arrays.mapped(path))
    if path.suffix == ".npz":
        return arrays.archive(path, columns)
    if path.is_dir() or path.suffix in (".parquet", ".pq"):
        return tables.parquet_rows(path, columns)
    raise InputError(f"{path} is not a .npy, .npz or .parquet file; convert it, or give a data.Decoded")
