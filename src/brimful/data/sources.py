"""From whatever the user has to a dataset that a loader or `map` can read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from ..core.base.errors import InputError
from . import numpy_files
from .array_dataset import ArrayDataset
from .arrow_tables import ParquetDataset, null_error, table_dataset
from .dataset import CustomDataset, Dataset, Source, chosen, some
from .ragged import Ragged


def source(what: Any, columns: Sequence[str] | None = None) -> Dataset:
    """Understands a dataset, and knows its bytes, without loading it.

    Args:
        what: tensors or arrays (one, or a tuple or dict of them, `Ragged` among them), an Arrow table, a pandas or
            polars frame, the path of a .npy, .npz or Parquet file (or a folder of Parquet files), or a `Source`.
        columns: only these fields, of a dict, a table, a .npz or a Parquet file.
    """
    dataset = open_dataset(what, columns)
    some(len(dataset), str(what) if isinstance(what, str | Path) else "the source")
    if isinstance(dataset, ArrayDataset) and dataset.bad:
        raise null_error(dataset.bad[min(dataset.bad)], min(dataset.bad))
    return dataset


def is_dataset(what: Any) -> bool:
    """Whether it is of a kind that `source` reads; a list of numbers, which it also reads, may be a list of items."""
    kinds = str | Path | Dataset | Source | torch.Tensor | np.ndarray | tuple | Mapping | Ragged | pa.RecordBatch
    return isinstance(what, kinds) or hasattr(what, "__arrow_c_stream__")


def open_dataset(what: Any, columns: Sequence[str] | None = None) -> Dataset:
    """As `source`, for readers that can do without any samples, and with rows that hold nulls."""
    if isinstance(what, str | Path):
        return _file(Path(what), columns)
    if isinstance(what, pa.RecordBatch):
        what = pa.Table.from_batches([what])
    if hasattr(what, "__arrow_c_stream__"):  # pandas, polars and Arrow itself
        return table_dataset(pa.table(what), columns)
    if columns is not None:
        if not isinstance(what, dict):
            raise InputError(f"columns= is for a dict, a table or a file with columns, not for a {type(what).__name__}")
        what = {name: what[name] for name in chosen(what, columns)}
    if isinstance(what, Dataset):
        return what
    if isinstance(what, Source) and not isinstance(what, torch.Tensor | np.ndarray):  # these have a `take` of their own
        return CustomDataset(what)
    return ArrayDataset(what)


def _file(path: Path, columns: Sequence[str] | None) -> Dataset:
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path")
    if path.suffix == ".npy":
        if columns is not None:
            raise InputError(f"{path} is one array without columns; leave columns= out")
        return ArrayDataset(numpy_files.mapped(path))
    if path.suffix == ".npz":
        return numpy_files.archive(path, columns)
    if path.is_dir() or path.suffix in (".parquet", ".pq"):
        return ParquetDataset(path, columns)
    raise InputError(f"{path} is not a .npy, .npz or .parquet file; convert it, or give a data.Decoded")
