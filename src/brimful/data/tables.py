"""Whatever has named columns, as Arrow tables or as datasets: frames, also lazy ones, Arrow's own, CSV, and datasets
that give a dict of columns for a slice of rows, as Hugging Face's do."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from ..core.base.errors import InputError
from ..core.base.pytree import as_tensor
from ..core.runs.function_fingerprint import of_function
from .array_dataset import ArrayDataset
from .arrow_tables import table_dataset
from .dataset import CustomDataset, Dataset, chosen

_HEAD, _CHUNK = 64, 8192  # rows that tell the form; rows that are read at a time
CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


def is_table(what: Any) -> bool:
    """Whether it is a frame, also a lazy one, or anything of Arrow that has columns."""
    arrow = isinstance(what, pa.RecordBatch) or _is_arrow_dataset(what)
    if type(what).__name__ == "Series":  # a column of pandas or polars: an array
        return False
    return arrow or _is_lazy(what) or hasattr(what, "__arrow_c_stream__")


def _is_arrow_dataset(what: Any) -> bool:
    """Without importing what there can then be none of: it imports pandas, where that is installed."""
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(what, module.Dataset)


def _is_lazy(what: Any) -> bool:
    return type(what).__name__ == "LazyFrame" and callable(getattr(what, "collect", None))  # polars


def as_table(what: Any) -> pa.Table:
    """A frame, or anything of Arrow, as a table."""
    if isinstance(what, pa.RecordBatch):
        return pa.Table.from_batches([what])
    if _is_arrow_dataset(what):
        return what.to_table()
    return pa.table(what.collect() if _is_lazy(what) else what)


def read_csv(path: Path) -> pa.Table:
    """A CSV file, or one with tabs."""
    tabs = ".tsv" in path.suffixes
    try:
        table = pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(delimiter="\t" if tabs else ","))
        return table.rename_columns(table.column_names)  # names that are no text raise here
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as CSV: {error}. Mend it, or convert it to Parquet") from error


def has_columns(what: Any) -> bool:
    """Whether it is a dataset that gives named columns for a slice of rows."""
    names = getattr(what, "column_names", None)
    return isinstance(names, list) and hasattr(what, "__len__") and hasattr(what, "__getitem__")


def check_one_split(what: Mapping[str, Any]) -> None:
    """Refuses a dict of such datasets, one for each split."""
    if what and all(has_columns(part) for part in what.values()):
        first = next(iter(what))
        raise InputError(f"the source has the splits {', '.join(map(str, what))}; give one of them: [{first!r}]")


def columnar_dataset(what: Any, columns: Sequence[str] | None) -> Dataset:
    """Columns of numbers of one shape are read as they are needed. Others, such as lists of unequal length, texts to be
    left out and nulls, are read into an Arrow table."""
    names = chosen(what.column_names, columns)
    head = what[: min(len(what), _HEAD)]
    if all(_is_numeric(head[name]) for name in names) and len(what):
        return CustomDataset(Columns(what, tuple(names)))
    parts = [_table(what[start : start + _CHUNK], names) for start in range(0, len(what), _CHUNK)]
    if not parts:
        return ArrayDataset({name: np.zeros(0) for name in names})
    return table_dataset(pa.concat_tables(parts, promote_options="permissive"), columns)


def _is_numeric(values: Any) -> bool:
    try:
        return np.asarray(values).dtype.kind in "biufc"
    except ValueError:  # of unequal length
        return False


def _table(rows: Mapping[str, Any], names: Sequence[str]) -> pa.Table:
    return pa.table({name: _as_list(rows[name]) for name in names})


def _as_list(values: Any) -> Any:
    return (
        values.tolist()
        if hasattr(values, "tolist")
        else [value.tolist() if hasattr(value, "tolist") else value for value in values]
    )


class Columns:
    """Columns of numbers, read by slices and by lists of row numbers."""

    def __init__(self, rows: Any, names: tuple[str, ...]) -> None:
        self.rows, self.names = rows, names

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: np.ndarray) -> Any:
        start, count = int(index[0]), len(index)
        if int(index[-1]) - start == count - 1 and (np.diff(index) == 1).all():
            rows = self.rows[start : start + count]
        else:
            rows = self.rows[index.tolist()]
        return {name: as_tensor(_array(rows[name]), name) for name in self.names}

    def fingerprint(self) -> str:
        known = getattr(self.rows, "_fingerprint", None)  # Hugging Face's own
        return f"{known} {self.names}" if isinstance(known, str) else of_function(self.rows)


def _array(values: Any) -> Any:
    return values if hasattr(values, "dtype") else np.asarray(values)
