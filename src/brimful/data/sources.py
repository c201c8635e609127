"""From whatever the user has to a dataset that a loader or `map` can read."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, cast

import numpy as np
import torch

from ..core.base.errors import InputError
from . import numpy_files, tables, torch_datasets
from .array_dataset import ArrayDataset
from .arrow_tables import ParquetDataset, table_dataset
from .dataset import CustomDataset, Dataset, Source, chosen, null_error, some
from .ragged import Ragged


def source(what: Any, columns: Sequence[str] | None = None) -> Dataset:
    """Understands a dataset, and knows its bytes, without loading it.

    Args:
        what: tensors or arrays (one, or a tuple or dict of them, `Ragged` among them, nested or not), memory maps; an
            Arrow table or dataset, a pandas or polars frame, also a lazy one; the path of a .npy, .npz, CSV or Parquet
            file, or of a folder of Parquet files; a `torch.utils.data.Dataset`; a dataset with named columns and
            slices, as Hugging Face's are; or a `Source`. What can only be iterated is read into memory.
        columns: only these fields, of whatever has columns.
    """
    dataset = open_dataset(what, columns)
    some(len(dataset), str(what) if isinstance(what, str | Path) else "the source")
    if isinstance(dataset, ArrayDataset) and dataset.bad:
        raise null_error(dataset.bad[min(dataset.bad)], min(dataset.bad))
    return dataset


def is_dataset(what: Any) -> bool:
    """Whether it is of a kind that `source` reads by index; a list of numbers, which it also reads, may be a list of
    items."""
    kinds = str | Path | Dataset | Source | torch.Tensor | np.ndarray | tuple | Mapping | Ragged
    array = hasattr(what, "__array__") or hasattr(what, "toarray")
    known = array or tables.is_table(what) or tables.has_columns(what) or torch_datasets.is_by_index(what)
    return known or isinstance(what, kinds)


def read_once(what: Any) -> Any:
    """The same, or the dataset of what can be read only once, or is computed each time: an iterator, a lazy frame."""
    lazy = tables.is_table(what) and not hasattr(what, "__len__")
    return open_dataset(what) if lazy or _is_one_pass(what) or _is_samples(what) else what


def _is_one_pass(what: Any) -> TypeGuard[Iterable[Any]]:
    return isinstance(what, Iterable) and not (hasattr(what, "__len__") or is_dataset(what))


def _is_samples(what: Any) -> bool:
    """Whether it is a list of samples, and not of numbers."""
    return isinstance(what, list) and bool(what) and isinstance(what[0], tuple | dict | torch.Tensor | np.ndarray)


def open_dataset(what: Any, columns: Sequence[str] | None = None) -> Dataset:
    """As `source`, for readers that can do without any samples, and with rows that hold nulls."""
    if isinstance(what, str | Path):
        return _file(Path(what), columns)
    if tables.is_table(what):
        return table_dataset(tables.as_table(what), columns)
    if tables.has_columns(what):
        return tables.columnar_dataset(what, columns)
    if isinstance(what, Mapping):
        tables.check_one_split(what)
    if columns is not None:
        if not isinstance(what, dict):
            raise InputError(f"columns= is for a dict, a table or a file with columns, not for a {type(what).__name__}")
        what = {name: what[name] for name in chosen(what, columns)}
    if isinstance(what, Dataset):
        return what
    if isinstance(what, Source) and not hasattr(what, "__array__"):  # arrays and series have a `take` of their own
        return CustomDataset(what)
    if torch_datasets.is_by_index(what):
        return torch_datasets.by_index(what)
    if isinstance(what, torch.utils.data.DataLoader):
        return open_dataset(torch_datasets.loader_parts(what).dataset)
    if _is_one_pass(what) or _is_samples(what):
        return torch_datasets.collected(cast(Iterable[Any], what))
    return ArrayDataset(_with_columns(what))


def _with_columns(tree: Any) -> Any:
    """A tuple or dict in which tables and frames are dicts of their columns."""
    if isinstance(tree, Mapping):
        return {key: _with_columns(part) for key, part in tree.items()}
    if isinstance(tree, tuple) and not hasattr(tree, "_fields"):
        return tuple(_with_columns(part) for part in tree)
    if not tables.is_table(tree):
        return tree
    table = table_dataset(tables.as_table(tree), None)
    if table.bad:
        raise null_error(table.bad[min(table.bad)], min(table.bad))
    return {name: table.column(name) for name in table.fields}


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
    if path.name.endswith(tables.CSV):
        return table_dataset(tables.read_csv(path), columns)
    raise InputError(f"{path} is not a .npy, .npz, .csv or .parquet file; convert it, or give a data.Decoded")
