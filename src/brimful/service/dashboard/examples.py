"""An example of each workload that ends within a minute on two cores."""

import io
import json
from dataclasses import dataclass, field
from typing import Any

from ..service import Service

_PROGRAMS = """def solve_mirror(I):
    O = vmirror(I)
    return O

def solve_flip(I):
    O = hmirror(I)
    return O

def solve_largest(I):
    x1 = objects(I, T, F, T)
    x2 = argmax(x1, size)
    O = subgrid(x2, I)
    return O
"""


def _tasks() -> str:
    """Two tasks in ARC's form: grids mirrored to the left, and upside down."""
    grids = [[[(3 * row + 5 * column + shift) % 7 for column in range(4)] for row in range(3)] for shift in range(3)]
    mirrored = [{"input": grid, "output": [row[::-1] for row in grid]} for grid in grids]
    flipped = [{"input": grid, "output": grid[::-1]} for grid in grids]
    pairs = {"mirror": mirrored, "flip": flipped}
    return json.dumps({name: {"train": each[:2], "test": each[2:]} for name, each in pairs.items()})


def _table() -> str:
    return "x,y\n" + "".join(f"{row / 100},{row * row / 10_000}\n" for row in range(1000))


@dataclass(frozen=True, slots=True)
class Example:
    """A job that anyone can start.

    Attributes:
        files: texts that are uploaded first, by the option that names them: a file's name and its content.
    """

    title: str
    text: str
    workload: str
    command: str
    config: dict[str, Any] = field(default_factory=dict)
    files: dict[str, tuple[str, str]] = field(default_factory=dict)

    def request(self, service: Service) -> dict[str, Any]:
        """As it is submitted, its files uploaded."""
        config = dict(self.config)
        for option, (name, text) in self.files.items():
            config[option] = f"upload:{service.upload(name, io.BytesIO(text.encode())).id}"  # pyright: ignore
        values = {"job_name": f"Example: {self.title}", "workload": self.workload, "command": self.command}
        return {**values, "config": config}

    def start(self, service: Service) -> str:
        """Submits it; the id of the job."""
        return service.submit(self.request(service)).id


EXAMPLES: tuple[Example, ...] = (
    Example(
        "Gaussian processes",
        "Fit 2,000 small Gaussian processes at once, and see some of the fits.",
        "gp",
        "fit",
        {"synthetic": 2000, "device": "cpu"},
    ),
    Example(
        "Two moons",
        "Train a score model of two moons, watch its loss, and see samples and the score field.",
        "wpo",
        "train",
        {"data": "moons", "steps": 300, "centers": 100, "samples": 4000, "device": "cpu"},
    ),
    Example(
        "What students know",
        "Train ordinal knowledge tracing on 100 made-up students, and see curves of its items.",
        "gpcm",
        "train",
        {"dataset": "100_10_3", "epochs": 3, "device": "cpu"},
    ),
    Example(
        "Programs on grids",
        "Run three programs on two small tasks of grids, and see which solves which.",
        "programs",
        "run",
        {"device": "cpu"},
        {"file": ("programs.py", _PROGRAMS), "data": ("tasks.json", _tasks())},
    ),
    Example(
        "Radio recordings",
        "Generate 1,000 recordings of transmitters into a dataset, to train on.",
        "locate",
        "generate",
        {"samples": 1000, "name": "example-recordings"},
    ),
    Example(
        "Tiny networks",
        "Train 1,000 tiny networks at once, and see how they end.",
        "nets",
        "train",
        {"count": 1000, "device": "cpu"},
    ),
    Example(
        "A table of numbers",
        "Import 1,000 rows from a file into a dataset.",
        "data",
        "import",
        {"dataset": "example-numbers"},
        {"source": ("numbers.csv", _table())},
    ),
)
