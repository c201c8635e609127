"""A report: one value that is printed, drawn to a folder, or shown on a page."""

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..base.formatting import plural
from ..runs.files import storage_error, write_atomic
from . import pictures
from .summary_text import format_summary, html_table, summary_rows

METRICS = "metrics.json"


@dataclass(frozen=True, slots=True)
class Report:
    """What there is to say of a result.

    Attributes:
        metrics: JSON values by name.
        tables: by name; each becomes a Parquet file.
        pictures: by name; each a function that draws a figure of matplotlib when it is asked for.
        captions: what a picture shows, in a sentence, by its name; written into its file.
    """

    metrics: Mapping[str, Any]
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    pictures: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    captions: Mapping[str, str] = field(default_factory=dict)

    def save(self, folder: str | Path) -> list[Path]:
        """Writes metrics as JSON, tables as Parquet and pictures as PNG; the files' paths, pictures first."""
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(folder, error) from error
        written = [self.draw(name, folder / f"{name}.png") for name in self.pictures]
        for name, table in self.tables.items():
            written.append(folder / f"{name}.parquet")
            write_atomic(written[-1], functools.partial(pq.write_table, table))
        written.append(folder / METRICS)
        write_atomic(written[-1], json.dumps(self.metrics, indent=1).encode())
        return written

    def draw(self, name: str, path: Path) -> Path:
        """Writes one picture."""
        figure = self.pictures[name]()

        def write(temporary: Path) -> None:
            pictures.save(figure, temporary, self.captions.get(name, ""))

        write_atomic(path, write)
        return path

    def __repr__(self) -> str:
        named = (("tables", self.tables), ("pictures", self.pictures))
        parts = [plural(len(self.metrics), "metric"), *(f"{name}: {', '.join(of)}" for name, of in named if of)]
        return f"Report({'; '.join(parts)})"

    def _repr_html_(self) -> str:
        return html_table("Report", summary_rows(self.metrics))

    def __str__(self) -> str:
        return format_summary(self.metrics)


def with_report(summary: Mapping[str, Any], report: Callable[[Path], Report], folder: Path | None) -> dict[str, Any]:
    """The summary of a command that saves a report: `pictures` are the paths of those drawn.

    Args:
        report: makes it, given the folder.
        folder: where to save it; None for nowhere.
    """
    paths = [] if folder is None else report(folder).save(folder)
    return {**summary, "pictures": [str(path) for path in paths if path.suffix == ".png"]}
