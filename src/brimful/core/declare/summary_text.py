"""Summaries of results as people read them; it needs nothing that computes."""

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base.formatting import format_bytes, format_count, format_seconds, format_table


def format_summary(summary: Mapping[str, Any]) -> str:
    """A summary as a table for people; what is a list of rows with names comes after it, as a table of its own."""
    text = format_table(summary_rows(summary))
    for key, value in summary.items():
        if _is_table(value):
            rows = [[text for _, text in summary_rows(row, skip=False)] for row in value]
            header = [name for name, _ in summary_rows(value[0], skip=False)]
            text += f"\n\n{key.replace('_', ' ')}\n{format_table(rows, header=header)}"
    return text


def html_table(caption: str, rows: Iterable[Sequence[str]], header: Sequence[str] = ()) -> str:
    """Rows as a table of a notebook; the first cell of each is its name."""
    lines = ["".join(f"<th>{html.escape(name)}</th>" for name in header)] if header else []
    for name, *cells in rows:
        lines.append(f"<th>{html.escape(name)}</th>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><caption>{html.escape(caption)}</caption>{body}</table>"


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def summary_rows(summary: Mapping[str, Any], skip: bool = True) -> list[tuple[str, str]]:
    """Names and values for people: bytes, seconds and shares, known by their keys' endings, in units.

    Args:
        skip: leave out what is empty, and tables.
    """
    rows = []
    for key, value in summary.items():
        if skip and (value is None or value in ([], {}) or _is_table(value)):
            continue
        if value is None:
            rows.append((key, ""))
        elif key.endswith("_bytes"):
            rows.append((key.removesuffix("_bytes"), format_bytes(value)))
        elif key.endswith("_share"):
            rows.append((key.removesuffix("_share"), f"{value:.2%}"))
        elif key.endswith("seconds"):
            rows.append((key.removesuffix("_seconds"), format_seconds(value)))
        else:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            rows.append((key, format_count(value) if number else _text(value)))
    return [(name.replace("_", " "), text) for name, text in rows]


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
