"""The points of predictions in a folder, beside the files that hold them."""

import functools
from pathlib import Path

import numpy as np
import pyarrow as pa

from ...core.runs import parquet
from ...core.runs.files import write_atomic
from ..data.labels import Labels, dated

POINTS = "points.parquet"


def write_points(folder: Path, new: np.ndarray, labels: Labels) -> None:
    """Writes points, (m, d) with one row per point, or (tasks, m, d) with one row per task."""
    names = labels.input_names(new.shape[-1])
    columns = {name: dated(new[..., place].reshape(-1), labels.date(place)) for place, name in enumerate(names)}
    if new.ndim == 3:
        columns = {name: pa.FixedSizeListArray.from_arrays(value, new.shape[1]) for name, value in columns.items()}
    write_atomic(folder / POINTS, functools.partial(parquet.write, pa.table(columns)))
