"""A table that is brought up to date in place: whoever is in it with the keyboard stays where they are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..elements import Tag, link, set_text, table


@dataclass(frozen=True, slots=True)
class Anchor:
    """A cell that leads to a page."""

    text: str
    href: str


Cell = str | Anchor
Row = tuple[Cell, ...]


class LiveTable:
    """A table of texts and links; made anew only where its first column is another.

    Args:
        nothing: said where there are no rows.
    """

    def __init__(self, caption: str, header: Sequence[str], nothing: str, classes: str = "table") -> None:
        self._caption, self._header, self._nothing, self._classes = caption, tuple(header), nothing, classes
        self._place = Tag("div")
        self._rows: list[Row] | None = None
        self._texts: dict[tuple[int, int], Tag] = {}

    def show(self, rows: Sequence[Row]) -> None:
        """Shows these rows; of those that it has, only the texts that changed are sent."""
        before, self._rows = self._rows, list(rows)
        if before is None or [_fixed(row) for row in before] != [_fixed(row) for row in rows]:
            self._make()
            return
        for place, row in enumerate(rows):
            for column, cell in enumerate(row):
                if isinstance(cell, str):
                    set_text(self._texts[place, column], cell)

    def _make(self) -> None:
        self._place.clear()
        self._texts = {}
        with self._place:
            if not self._rows:
                Tag("p", self._nothing, "muted")
                return
            rows = [
                [self._cell(place, column, cell) for column, cell in enumerate(row)]
                for place, row in enumerate(self._rows)
            ]
            table(self._caption, self._header, rows, self._classes)

    def _cell(self, place: int, column: int, cell: Cell) -> Callable[[], Any]:
        if isinstance(cell, Anchor):
            return lambda: link(cell.text, cell.href)
        return lambda: self._texts.update({(place, column): Tag("span", cell)})


def _fixed(row: Row) -> tuple[Any, ...]:
    """What of a row cannot change in place: its name, and its links."""
    return (row[0], *(cell if isinstance(cell, Anchor) else None for cell in row[1:]))
