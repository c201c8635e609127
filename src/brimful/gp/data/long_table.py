"""Long tables, one row per point: which columns are what, and their numbers."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...core.base.errors import ConfigError, InputError, raise_first
from ...data.dates import days, is_moment, is_text, parsed


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The names of a long table's columns; x may name several, by commas or in a list. Where x is not said and no
    column has one of its usual names, all columns that are left are inputs."""

    id: str | None = None
    x: str | Sequence[str] | None = None
    y: str | None = None
    noise: str | None = None

    def __post_init__(self) -> None:
        for name in ("id", "x", "y", "noise"):
            given = getattr(self, name)
            several = name == "x" and isinstance(given, list | tuple) and all(isinstance(value, str) for value in given)
            if not (given is None or isinstance(given, str) or several):
                raise ConfigError(f"columns has {name}={given!r}; give the name of a column")

    @property
    def inputs(self) -> list[str]:
        """The names in x."""
        names = self.x.split(",") if isinstance(self.x, str) else self.x or []
        return [value.strip() for value in names]

    def resolve(self, names: list[str]) -> tuple[str, list[str], str]:
        """The columns of task, inputs and target among these: as they were named, or by their usual names."""
        task, target = self.id or _find("id", names), self.y or _find("y", names)
        inputs = self.inputs or _inputs(names, task, target, self.noise)
        raise_first(
            (name not in names, f"the table has no column {name!r}; it has {', '.join(names)}")
            for name in (task, *inputs, target, *([self.noise] if self.noise else []))
        )
        return task, inputs, target


_NAMES = {
    "id": ("unique_id", "task", "task_id", "series", "id", "item_id"),
    "x": ("ds", "x", "t", "time", "date", "timestamp"),
    "y": ("y", "value", "target"),
}
_INDEX = re.compile(r"(__index_level_\d+__)?")  # what pandas calls the numbers of its rows; in CSV, nothing


def is_table(source: Any) -> bool:
    """Whether something is a table, or may be the path of one."""
    frame = _lazy(source) or hasattr(source, "__arrow_c_stream__") or hasattr(source, "columns")
    return frame or isinstance(source, str | Path)


def _lazy(source: Any) -> bool:
    """Whether it is a frame that polars has still to compute. Its class is asked: asking a frame for columns costs."""
    return hasattr(type(source), "collect") and hasattr(type(source), "collect_schema")


def read_table(source: Any) -> pa.Table:
    """A table in memory, or that of a Parquet, CSV or TSV file, without the numbers that pandas gives its rows."""
    table = _table(source)
    raise_first(
        (count > 1, f"the table has {count} columns called {name!r}; rename all but one")
        for name, count in Counter(table.column_names).items()
    )
    return pa.table(
        {field.name: plain(table[field.name], field) for field in table.schema if not _INDEX.fullmatch(field.name)}
    )


def _table(source: Any) -> pa.Table:
    path = Path(source) if isinstance(source, str | Path) else None
    if path is not None and not path.exists():
        raise InputError(f"{path} does not exist; check the path")
    try:
        if path is None:
            frame = source.collect() if _lazy(source) else source  # pyright: ignore[reportAttributeAccessIssue]
            frame = _native(frame)
            return pa.table(frame) if hasattr(frame, "__arrow_c_stream__") else pa.Table.from_pandas(frame)
        name = path.name.lower().removesuffix(".gz")
        if name.endswith((".csv", ".tsv")):
            import pyarrow.csv

            tabs = pyarrow.csv.ParseOptions(delimiter="\t" if name.endswith(".tsv") else ",")
            table = pyarrow.csv.read_csv(path, parse_options=tabs)
            return table.rename_columns(table.column_names)  # names that are no text raise here
        return pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path or type(source).__name__} cannot be read as a table: {error}") from error


def _native(frame: Any) -> Any:
    """A frame of pandas whose numbers have this machine's byte order, which Arrow asks for."""
    kinds: Any = getattr(frame, "dtypes", None)
    items = kinds.items() if hasattr(kinds, "items") else ()
    foreign = {name: kind for name, kind in items if isinstance(kind, np.dtype) and not kind.isnative}
    return frame.astype({name: kind.newbyteorder("=") for name, kind in foreign.items()}) if foreign else frame


def _find(what: str, names: list[str]) -> str:
    for name in _NAMES[what]:
        if name in names:
            return name
    raise InputError(
        f"no column of {', '.join(names)} is called {' or '.join(_NAMES[what])}; name it with the {what} option"
    )


def _inputs(names: list[str], task: str, target: str, noise: str | None) -> list[str]:
    rest = [name for name in names if name not in (task, target, noise)]
    if not rest:
        raise InputError(f"the table has no input column beside {task!r} and {target!r}; name it with the x option")
    return [name for name in _NAMES["x"] if name in rest][:1] or rest


_PERIOD = "pandas.period"


def plain(column: Any, field: pa.Field) -> Any:
    """A column, or an array, that Arrow can work with: texts in their usual form, and a period as its start."""
    if pa.types.is_string_view(field.type):  # as polars has them; they cannot be taken by place
        return pc.cast(column, pa.large_string())
    frequency = _frequency(field)
    return column if frequency is None else _starts(column, frequency, field.name)


def _frequency(field: pa.Field) -> str | None:
    """That of pandas' periods; None where it is no column of periods."""
    kind, about = field.type, field.metadata or {}
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name == _PERIOD:
        return getattr(kind, "freq", None)
    if about.get(b"ARROW:extension:name") == _PERIOD.encode():  # of a file: Arrow knows the type only beside pandas
        return json.loads(about[b"ARROW:extension:metadata"])["freq"]
    return None


def _starts(column: Any, frequency: str, name: str) -> pa.Array:
    """The moments at which pandas' periods begin."""
    try:
        import pandas as pd

        count = pc.cast(column, pa.int64())
        periods = pd.PeriodIndex.from_ordinals(pc.fill_null(count, 0).to_numpy(), freq=frequency)
        return pa.array(periods.start_time.to_numpy(), mask=count.is_null().to_numpy(zero_copy_only=False))
    except (ImportError, ValueError) as error:
        raise InputError(
            f"column {name!r} holds periods of pandas, and cannot be read ({error}); give dates"
        ) from error


def moments(days_N: np.ndarray) -> pa.Array:
    """Days since 1970-01-01 as dates, or with the time of day, in UTC, where there is one; null where it is NaN."""
    there = np.isfinite(days_N)
    moment = np.rint(np.where(there, days_N, 0.0) * 86_400e6).astype(np.int64)
    result = pa.array(moment, mask=~there).cast(pa.timestamp("us"))
    return result if (moment % 86_400_000_000).any() else result.cast(pa.date32())


def date_kind(column: pa.ChunkedArray) -> str | None:
    """Arrow's name of the type of a column's dates; None where it holds none. Of texts, the type of their dates."""
    kind = column.type
    if is_text(kind) and column.null_count < len(column):
        return "date32[day]"  # with a time of day where there is one
    return str(kind) if is_moment(kind) else None


def inputs_of(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """An input column as float64: numbers, dates, or texts that are dates; NaN where it is null."""
    if not is_text(column.type):
        return numbers(column, name)
    try:
        return days(parsed(column))
    except pa.ArrowException as error:
        raise InputError(
            f"column {name!r} holds texts that are not dates: {error}; give numbers, or dates such as 2024-01-31"
        ) from error


def numbers(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """A column as float64, NaN where it is null."""
    kind = column.type
    try:
        if is_moment(kind):
            return days(column)
        if is_text(kind):
            raise pa.ArrowInvalid("it holds texts")
        return pc.cast(column, pa.float64()).to_numpy()
    except (pa.ArrowException, NotImplementedError) as error:
        vast = "; divide numbers that large, or give datetimes" if pa.types.is_integer(kind) else ""
        raise InputError(f"column {name!r} is {kind}, and must hold numbers or dates: {error}{vast}") from error
