"""A dataset as a Parquet file, for what reads tables from files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from ...core.base.errors import InputError
from ...core.runs.files import write_atomic
from ..chunked import chunks_of
from ..dataset import Field
from .connection import Database
from .source import open_dataset


def write_table_file(name: str, path: Path, url: str | None = None, *, home: str | Path | None = None) -> None:
    """Writes the rows of a dataset, a chunk at a time: a column of numbers per field, or of lists of numbers.

    Raises:
        InputError: there is no such dataset, or it has a field that is no column of a table.
    """
    dataset = open_dataset(Database.at(url, home), name)
    try:
        for field, form in dataset.fields.items():
            if len(form.shape) > 1:
                raise InputError(
                    f"dataset {name!r} has the field {field!r} of shape {list(form.shape)}, and a column of a table "
                    "holds numbers, or lists of numbers; give a dataset without it, or a file"
                )

        def write(temporary: Path) -> None:
            writer: pq.ParquetWriter | None = None
            try:
                for chunk in range(chunks_of(dataset)):
                    rows = dataset.read(chunk)
                    table = pa.table({field: _column(rows[field], form) for field, form in dataset.fields.items()})
                    writer = writer or pq.ParquetWriter(temporary, table.schema)
                    writer.write_table(table)
            finally:
                if writer is not None:
                    writer.close()

        write_atomic(path, write)
    finally:
        dataset.close()


def _column(values: torch.Tensor, form: Field) -> pa.Array:
    numbers = (values.float() if values.dtype == torch.bfloat16 else values).contiguous().numpy()
    if not form.shape:
        return pa.array(numbers)
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers.reshape(-1)), form.shape[0])
