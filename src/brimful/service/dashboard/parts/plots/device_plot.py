"""Memory of a device over time, by job."""

from nicegui.element import Element

Look = tuple[float, int, tuple[tuple[str, str, int], ...]]
"""Seconds since 1970, bytes in use, and id, name and bytes in use of each job; tuples, since NiceGUI makes an
observer of every list that it is given."""


class DevicePlot(Element, component="device_plot.js"):
    """A plot that grows to the right.

    Args:
        history: of each look.
    """

    def __init__(self, device: str, memory: int, budget: int, history: tuple[Look, ...]) -> None:
        super().__init__()
        self._props["device"], self._props["memory"], self._props["budget"] = device, memory, budget
        self._props["history"] = history

    def add(self, row: Look) -> None:
        self.run_method("add", row)
