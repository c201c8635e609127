"""Whatever has named columns, as Arrow tables or as datasets: frames, also lazy ones, Arrow's own, CSV, and datasets
that give a dict of columns for a slice of rows, as Hugging Face's do."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ..core.base import arrow
from ..core.base.errors import InputError
from ..core.base.pytree import as_tensor
from ..core.memory.oom import error_line
from ..core.runs.function_fingerprint import of_function
from .array_dataset import ArrayDataset
from .arrow_tables import table_dataset
from .dataset import CustomDataset, Dataset, chosen

_HEAD, _CHUNK = 64, 8192  # rows that tell the form; rows that are read at a time
CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


def is_table(what: Any) -> bool:
    """Whether it is a frame, also a lazy one, or anything of Arrow that has columns."""
    of_arrow = isinstance(what, pa.RecordBatch) or _is_arrow_dataset(what)
    if type(what).__name__ == "Series" or isinstance(what, pa.ChunkedArray):  # a column of pandas or polars: an array
        return False
    return of_arrow or _is_lazy(what) or hasattr(what, "__arrow_c_stream__")


def _is_arrow_dataset(what: Any) -> bool:
    """Without importing what there can then be none of: it imports pandas, where that is installed."""
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(what, module.Dataset)


def _is_lazy(what: Any) -> bool:
    return type(what).__name__ == "LazyFrame" and callable(getattr(what, "collect", None))  # polars


def as_table(what: Any) -> pa.Table:
    """A frame, or anything of Arrow, as a table; a column that cannot become one of Arrow's is named."""
    if isinstance(what, pa.RecordBatch):
        table = pa.Table.from_batches([what])
    elif _is_arrow_dataset(what):
        table = what.to_table()
    else:
        frame = _collected(what) if _is_lazy(what) else what
        pandas = type(frame).__module__.partition(".")[0] == "pandas"
        _check_names(frame.columns if hasattr(frame, "columns") and not isinstance(frame, pa.Table) else ())
        table = _of_pandas(frame) if pandas else _of_columns(frame)
    _check_names(table.column_names)
    for position, field in enumerate(table.schema):
        if isinstance(field.type, pa.FixedShapeTensorType):
            table = table.set_column(position, field.name, _unpacked(table.column(position)))
    return table


def _collected(lazy: Any) -> Any:
    try:
        return lazy.collect()
    except Exception as error:
        raise InputError(f"the lazy frame cannot be computed: {error_line(error)}") from error


def _check_names(names: Any) -> None:
    counts = Counter(map(str, names))
    if twice := [name for name, count in counts.items() if count > 1]:
        raise InputError(f"several columns are named {', '.join(map(repr, twice))}; rename them, or leave some out")


def _of_pandas(frame: Any) -> pa.Table:
    """A frame of pandas, with its index where that has a name."""
    swapped = {
        name: dtype.newbyteorder("=")
        for name, dtype in frame.dtypes.items()
        if isinstance(dtype, np.dtype) and not dtype.isnative
    }
    frame = frame.astype(swapped) if swapped else frame
    try:
        table = pa.Table.from_pandas(frame)
    except Exception as error:
        raise _of_column(frame, frame.columns, error) from error
    columns = set(map(str, frame.columns))
    return table.drop_columns(
        [name for name in table.column_names if name.startswith("__index_level_") and name not in columns]
    )


def _of_columns(frame: Any) -> pa.Table:
    """A frame of polars, or of another package that hands its columns to Arrow."""
    try:
        return pa.table(frame)
    except Exception as error:
        raise _of_column(frame, getattr(frame, "columns", ()), error) from error


def _of_column(frame: Any, names: Iterable[Any], error: Exception) -> InputError:
    """What to say where a frame cannot become a table: which column is the reason."""
    for name in names:
        try:
            pa.table(frame[[name]])
        except Exception as reason:
            words = str(next(iter(reason.args), "")).strip().rstrip(".")
            return InputError(
                f"column {str(name)!r}, of {frame[name].dtype}, cannot become a column of an Arrow table: {words}. "
                "Turn it into numbers of one type, or leave it out"
            )
    return InputError(f"the {type(frame).__name__} cannot become an Arrow table: {error_line(error)}")


def _unpacked(column: pa.ChunkedArray) -> Any:
    """A column of tensors of one shape as lists of lists of fixed size, where none is null and their axes in order."""
    kind: Any = column.type
    if column.null_count or (kind.permutation or list(range(len(kind.shape)))) != list(range(len(kind.shape))):
        return column
    chunks = []
    for chunk in column.chunks:
        values: Any = chunk.storage.flatten()
        for size in reversed(kind.shape):
            values = pa.FixedSizeListArray.from_arrays(values, size)
        chunks.append(values)
    return pa.chunked_array(chunks) if chunks else column


def read_csv(path: Path) -> pa.Table:
    """A CSV file, or one with tabs."""
    tabs = ".tsv" in path.suffixes
    try:
        table = pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(delimiter="\t" if tabs else ","))
        table = table.rename_columns(table.column_names)  # names that are no text raise here
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as CSV: {error}. Mend it, or convert it to Parquet") from error
    if not table.num_rows:
        raise InputError(f"{path} has a header and no rows; check what wrote it")
    return table


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
    left out and nulls, are read into an Arrow table. One that has no format of its own is read as Arrow's tables, which
    know the types of their columns."""
    rows, count = _as_arrow(what, columns), len(what)
    head = _part(rows, 0, min(count, _HEAD))
    names = chosen(head.column_names if isinstance(head, pa.Table) else head, columns)
    if count and all(_is_numeric(head[name]) for name in names):
        return CustomDataset(Columns(rows, tuple(names)))
    parts = [_table(_part(rows, start, start + _CHUNK), names) for start in range(0, count, _CHUNK)]
    if not parts:
        return ArrayDataset({name: np.zeros(0) for name in names})
    return table_dataset(pa.concat_tables(parts, promote_options="permissive"), columns)


def _as_arrow(what: Any, columns: Sequence[str] | None) -> Any:
    """A dataset that has no format, as one that gives Arrow's tables, where those can be read here; others as they
    are."""
    formatted = getattr(what, "format", None)
    if not isinstance(formatted, Mapping) or formatted.get("type", "") is not None or not len(what):
        return what
    rows = what.with_format("arrow")
    head = _part(rows, 0, min(len(what), _HEAD))
    names = chosen(head.column_names, columns)
    return what if any(_is_deep(head.schema.field(name).type) for name in names) else rows


def _is_deep(kind: Any) -> bool:
    """Whether it is of lists of lists, or another type of its own."""
    if isinstance(kind, pa.BaseExtensionType):
        return True
    return pa.types.is_nested(kind.value_type if _is_list(kind) else kind)


def _is_list(kind: Any) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _part(rows: Any, start: int, stop: int) -> Any:
    """Some rows: a dict of columns, or a table."""
    part = rows[start:stop]
    return as_table(part) if is_table(part) else part


def _is_numeric(values: Any) -> bool:
    try:
        return np.asarray(_array(values)).dtype.kind in "biufc"
    except (ValueError, TypeError):  # of unequal length, or no numbers
        return False


def _table(rows: Any, names: Sequence[str]) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows.select(list(names))
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
            rows = _part(self.rows, start, start + count)
        else:
            rows = self.rows[index.tolist()]
            rows = as_table(rows) if is_table(rows) else rows
        return {name: as_tensor(_array(rows[name]), name) for name in self.names}

    def fingerprint(self) -> str:
        known = getattr(self.rows, "_fingerprint", None)  # Hugging Face's own
        return f"{known} {self.names}" if isinstance(known, str) else of_function(self.rows)


def _array(values: Any) -> Any:
    """A column as an array; a TypeError where one of Arrow's holds no numbers, or nulls that it cannot show."""
    if not isinstance(values, pa.ChunkedArray):
        return values if hasattr(values, "dtype") else np.asarray(values)
    column: Any = arrow.whole(values)
    if not _is_list(column.type) or pa.types.is_fixed_size_list(column.type):
        numbers, nulls = arrow.numbers(column)
    else:
        if len(set(pc.call_function("list_value_length", [column]).to_pylist())) > 1:
            raise ValueError("of unequal length")
        numbers, nulls = arrow.numbers(column.flatten())
        numbers = numbers.reshape(len(column), -1)
    if len(nulls):
        raise TypeError(f"it holds a null in row {nulls[0]}")
    return numbers.numpy()
