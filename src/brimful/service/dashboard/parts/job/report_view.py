"""What a job has made: pictures in place, numbers and tables."""

import re
from typing import Any

from ...elements import Number, Tag, link, table
from ...values import counted, exact, result_name, result_value
from .files_view import artifact_address

_SHARD = re.compile(r"^shard-(\d+)-(\d+)$")
_ROWS = 20


def report_view(id: str, report: dict[str, Any]) -> None:
    """Pictures, numbers and tables of a report."""
    with Tag("div", classes="result"):
        if report["pictures"]:
            _pictures(id, report["pictures"], report.get("captions", {}))
        numbers = {
            name: value
            for name, value in report["metrics"].items()
            if value is not None and not isinstance(value, dict | list)
        }
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
                address = artifact_address(id, name)
                caption = captions.get(name) or _title(name)
                with Tag("div", classes="scroll"), link("", address, target="_blank", rel="noopener"):
                    Tag("img", src=address, alt=f"Picture of the report: {caption}", loading="lazy")
                Tag("figcaption", caption)


def _title(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[0].replace("_", " ")
