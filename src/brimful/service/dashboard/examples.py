"""An example of each workload that ends within a minute on two cores."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Example:
    """A job that anyone can start."""

    title: str
    text: str
    workload: str
    command: str
    config: dict[str, Any] = field(default_factory=dict)

    def request(self) -> dict[str, Any]:
        """As it is submitted."""
        values = {"job_name": f"Example: {self.title.lower()}", "workload": self.workload, "command": self.command}
        return {**values, "config": dict(self.config), "priority": 0}


EXAMPLES: tuple[Example, ...] = (
    Example(
        "Gaussian processes",
        "Fit 2,000 small Gaussian processes at once, and see some of the fits.",
        "gp",
        "fit",
        {"synthetic": 2000, "device": "cpu"},
    ),
    Example(
        "Tiny networks",
        "Train 1,000 tiny networks at once, each with a learning rate of its own.",
        "nets",
        "train",
        {"count": 1000, "device": "cpu"},
    ),
)
