"""Plain text tables, for terminals, logs and pipes alike."""

from collections.abc import Iterable, Sequence


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
    widths = [max(len(row[place]) for row in table) for place in range(len(table[0]))]
    lines = (indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table)
    return "\n".join(line.rstrip() for line in lines)
