"""Memory of a device over time, by job."""

from typing import Any

from nicegui.element import Element
from nicegui.elements import echart

assert echart  # registers the library of the plots


class DevicePlot(Element, component="device_plot.js"):
    """A plot that grows to the right.

    Args:
        history: [time, bytes in use, [[id, name, bytes], ...]] of each look.
    """

    def __init__(self, device: str, memory: int, budget: int, history: list[Any]) -> None:
        super().__init__()
        self._props["device"], self._props["memory"], self._props["budget"] = device, memory, budget
        self._props["history"] = history

    def add(self, row: list[Any]) -> None:
        self.run_method("add", row)
