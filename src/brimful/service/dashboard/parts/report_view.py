"""What a job has made: pictures in place, numbers, tables, and its files."""

import re
from typing import Any
from urllib.parse import quote

from ....core.base.formatting import format_bytes
from ...api.jobs import PREFIX
from ...jobs.job import Artifact
from ..elements import Number, Tag, link, table
from ..values import counted, exact, result_name, result_value

_SHARD = re.compile(r"^shard-(\d+)-(\d+)$")
_ROWS = 20
_FILES = 200


def report_view(id: str, report: dict[str, Any]) -> None:
    """Pictures, numbers and tables of a report."""
    with Tag("div", classes="result"):
        if report["pictures"]:
            _pictures(id, report["pictures"], report.get("captions", {}))
        numbers = {name: value for name, value in report["metrics"].items() if not isinstance(value, dict | list)}
        if numbers:
            rows = [(result_name(name), result_value(name, value)) for name, value in numbers.items()]
            table("Summary", ("Name", "Value"), rows, "table plain")
    for name, rows in report["tables"].items():
        if rows:
            with Tag("details"):
                shown = rows[:_ROWS]
                title = _SHARD.sub(lambda found: f"items {int(found[1]):,} to {int(found[2]) - 1:,}", name)
                total = report.get("rows", {}).get(name, len(rows))
                part = f", the first {len(shown)} are shown" if total > len(shown) else ""
                Tag("summary", f"{title.replace('_', ' ')} ({counted(total, 'row')}{part})")
                values = [[_shown(value) for value in row.values()] for row in shown]
                table(f"Table {name}", tuple(shown[0]), values)


def _shown(value: Any) -> str:
    """A value as a text; numbers stand to the right."""
    if value is None:
        return ""
    return Number(exact(value)) if isinstance(value, int | float) and not isinstance(value, bool) else exact(value)


def _pictures(id: str, names: list[str], captions: dict[str, str]) -> None:
    with Tag("div", classes="pictures"):
        for name in names:
            with Tag("figure"):
                address = _address(id, name)
                caption = captions.get(name) or _title(name)
                with Tag("div", classes="scroll"), link("", address, target="_blank", rel="noopener"):
                    Tag("img", src=address, alt=f"Picture of the report: {caption}", loading="lazy")
                Tag("figcaption", caption)


def artifacts_view(id: str, artifacts: list[Artifact]) -> None:
    """The files that a job wrote, to download."""
    if not artifacts:
        Tag("p", "No files yet.", "muted")
        return

    def download(artifact: Artifact) -> Any:
        return lambda: link(artifact.name, _address(id, artifact.name), download=artifact.name.rpartition("/")[2])

    rows = [(download(one), Number(format_bytes(one.bytes)), one.media_type) for one in artifacts[:_FILES]]
    table("Files", ("Name", "Size", "Kind"), rows, "table files")
    if len(artifacts) > _FILES:
        Tag("p", f"and {len(artifacts) - _FILES:,} more; brimful jobs artifacts {id} lists all", "muted")


def _address(id: str, name: str) -> str:
    return f"{PREFIX}/{id}/artifacts/{quote(name)}"


def _title(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[0].replace("_", " ")
