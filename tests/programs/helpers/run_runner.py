"""Runs of programs that tests stop: an order has the options of a run (stopping.py)."""

from typing import Any

from brimful import programs

from ...helpers.stopping import serve
from .small import TEXT, task

TASKS = 60


def work(order: dict[str, Any]) -> programs.ProgramResult:
    """The run that an order asks for; the same here and in the test."""
    made = [task(f"t{number}", number) for number in range(TASKS)]
    return programs.run(programs.loads(TEXT), made, device="cpu", progress=False, **order)


def silently(order: dict[str, Any]) -> None:
    work(order)


if __name__ == "__main__":
    serve(silently)
