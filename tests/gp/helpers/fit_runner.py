"""Fits that tests stop: an order has the kind of data and the options of a fit (stopping.py)."""

from typing import Any

from brimful import gp

from ...helpers.stopping import serve
from .small import rows

COUNT, POINTS = 1_000, 20


def work(order: dict[str, Any]) -> gp.Fit:
    """The fit that an order asks for; the same here and in the test."""
    options = {name: value for name, value in order.items() if name != "data"}
    if order["data"] == "ragged":
        x, y = rows(0, COUNT, POINTS)
        data: Any = [(x[task, : 3 + task % 18], y[task, : 3 + task % 18]) for task in range(COUNT)]
    else:
        data = gp.synthetic(COUNT, POINTS, shared=order["data"] == "shared")
    return gp.fit(data, device="cpu", progress=False, **options)


def silently(order: dict[str, Any]) -> None:
    work(order)


if __name__ == "__main__":
    serve(silently, "brimful.gp.cpu.fit")
