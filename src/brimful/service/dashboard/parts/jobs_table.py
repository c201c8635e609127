"""The table of jobs: rows that can be selected, and columns that can be sorted by."""

from collections.abc import Callable
from typing import Any

from nicegui.element import Element
from nicegui.events import GenericEventArguments


class JobsTable(Element, component="jobs_table.js"):
    """A table whose rows are updated one by one.

    Args:
        on_sort: called with a sort, as `JobFilter` has it.
        on_select: called with the ids of the rows that are selected.
    """

    def __init__(
        self,
        rows: list[dict[str, Any]],
        sort: str,
        on_sort: Callable[[str], Any],
        on_select: Callable[[list[str]], Any],
    ) -> None:
        super().__init__()
        self._props["rows"], self._props["sort"] = rows, sort
        self._shown = {row["id"]: row for row in rows}

        def sorted_by(event: GenericEventArguments) -> Any:
            return on_sort(str(event.args))

        def selected(event: GenericEventArguments) -> Any:
            return on_select([str(id) for id in event.args])

        self.on("sort", sorted_by)
        self.on("select", selected)

    def clear(self) -> None:
        """Selects none."""
        self.run_method("clear")

    def show(self, rows: list[dict[str, Any]], sort: str) -> None:
        """Shows these rows; where they are the same jobs in the same order, only those that changed are sent."""
        shown, self._shown = self._shown, {row["id"]: row for row in rows}
        if sort != self._props["sort"] or list(shown) != list(self._shown):
            self._props["rows"], self._props["sort"] = rows, sort
        elif changed := [row for row in rows if row != shown[row["id"]]]:
            with self._props.suspend_updates():
                self._props["rows"] = rows
            self.run_method("patch", changed)
