"""The report of a job, read from the files that its command wrote: metrics, tables and names of pictures."""

import contextlib
import json
from pathlib import Path
from typing import Any

from .child.job_dir import RUN
from .store.rows import plain

MOST_ROWS = 1000
_MOST_TABLES = 50
_LARGEST = 64 << 20  # bytes of a table that is shown


def read_report(folder: Path, summary: dict[str, Any] | None) -> dict[str, Any]:
    """The report of a job's directory; the summary stands in where no report was written.

    Returns:
        {"metrics": {...}, "tables": {name: [its first `MOST_ROWS` rows as objects]}, "rows": {name: how many},
        "pictures": [names of artifacts], "captions": {name of a picture: what it shows}}.
    """
    from ..core.declare.captions import caption_of
    from ..core.declare.report import METRICS  # with pyarrow, which a server that shows no report has no use for

    root = folder / RUN
    places = [place for place in (root, root / "report") if place.is_dir()]
    metrics: dict[str, Any] = summary or {}
    tables, rows, pictures = {}, {}, []
    for place in places:
        with contextlib.suppress(OSError, ValueError):
            metrics = json.loads((place / METRICS).read_bytes())
        pictures += [file.relative_to(root).as_posix() for file in sorted(place.glob("*.png"))]
        files = [file for file in sorted(place.glob("*.parquet")) if not file.name.startswith("shard-")]
        shards = sorted(place.glob("shard-*.parquet"))[: 0 if files else 1]  # where nothing else is there, the first
        for file in (files + shards)[:_MOST_TABLES]:
            if not file.is_symlink() and file.stat().st_size <= _LARGEST:
                with contextlib.suppress(Exception):  # one that cannot be read is left out
                    tables[file.stem], rows[file.stem] = _rows(file)
    captions = {name: caption for name in pictures if (caption := caption_of(root / name))}
    return {"metrics": plain(metrics), "tables": tables, "rows": rows, "pictures": pictures, "captions": captions}


def _rows(file: Path) -> tuple[list[dict[str, Any]], int]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as parquet:
        batch, total = next(parquet.iter_batches(MOST_ROWS), None), parquet.metadata.num_rows
    return ([] if batch is None else plain(batch.to_pylist())), total
