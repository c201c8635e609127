"""Bytes, seconds, counts and tables as people read them, and sizes back to bytes."""

import math
import re
from collections.abc import Iterable, Sequence

_SCALE = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
_SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*([kmgt]i?)?(b|bytes)?\s*", re.IGNORECASE)


def parse_bytes(text: str) -> int | None:
    """`"8GB"`, `"8 GiB"`, `"512M"`, `"1e9"` as bytes; None when the text is not a size.

    GB is 10^9 and GiB is 2^30, as on a disk's label and in a card's driver.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    number = float(match[1]) * _SCALE[(match[2] or "").lower()]
    return round(number) if math.isfinite(number) else None


def format_bytes(count: float) -> str:
    """`8000000000` as `8.00 GB`, in the decimal units that budgets are mostly written in."""
    size = abs(count)
    for unit, scale in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale * 0.9995:
            digits = 2 if size < 99.5 * scale else 0
            return f"{count / scale:.{digits}f} {unit}"
    return f"{count:.0f} B"


def format_seconds(seconds: float) -> str:
    """`0.0012` as `1.2 ms`, `75` as `1m15s`, `7300` as `2h02m`."""
    if not math.isfinite(seconds):
        return "?"
    if seconds < 0.9995e-3:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 59.5:
        return f"{seconds:.1f} s"
    if seconds < 3599.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes}m{rest:02d}s"
    hours, rest = divmod(round(seconds / 60), 60)
    return f"{hours}h{rest:02d}m"


def plural(count: int, name: str, several: str | None = None) -> str:
    """`1 row`, `2,000 rows`; of `several` where that is not the name with an s."""
    return f"{format_count(count)} {name if count == 1 else several or name + 's'}"


def a_kind(value: object) -> str:
    """What a value is, for a message: `an int`, `a list`."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def format_count(count: float) -> str:
    """A whole number with separators, or three significant digits where it is not whole."""
    return f"{count:,.0f}" if float(count).is_integer() or abs(count) >= 1000 else f"{count:.3g}"


def format_table(rows: Iterable[Sequence[str]], header: Sequence[str] = (), indent: str = "  ") -> str:
    """Rows as left-aligned columns, two spaces apart, under an optional header.

    Example:
        >>> print(format_table([("a", "1"), ("long", "2")], indent=""))
        a     1
        long  2
    """
    table = [[str(cell) for cell in row] for row in rows]
    if header:
        table = [list(header), ["-" * len(name) for name in header], *table]
    if not table:
        return ""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = (indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table)
    return "\n".join(line.rstrip() for line in lines)
