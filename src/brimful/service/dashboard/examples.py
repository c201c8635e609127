"""An example of each workload that ends within a minute on two cores."""

import io
import itertools
import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..jobs.job import LARGEST_PAGE, JobFilter
from ..service import Service

_PREFIX = "Example: "
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


def _recordings(count: int = 1000, receivers: int = 6) -> str:
    """Transmitters that receivers in a ring detect: levels fall with the distance, and are noisy."""
    rng = random.Random(0)
    rows = ["recording,latitude,longitude,snr_db,psd_dbm_hz,transmitter_latitude,transmitter_longitude"]
    angles = [math.tau * place / receivers for place in range(receivers)]
    ring = [(25 * math.cos(angle), 25 * math.sin(angle)) for angle in angles]

    def place(east: float, north: float) -> str:
        return f"{45 + north / 111.2:.5f},{8 + east / 78.6:.5f}"

    for number in range(count):
        radius, angle = 22 * math.sqrt(rng.random()), math.tau * rng.random()
        at = radius * math.cos(angle), radius * math.sin(angle)
        for site in ring:
            level = -75.2 - 20 * math.log10(math.dist(site, at)) + rng.gauss(0, 2)  # dBm: 10 dBm at 434 MHz
            rows.append(f"{number},{place(*site)},{level + 118:.2f},{level - 44:.2f},{place(*at)}")
    return "\n".join(rows) + "\n"


@dataclass(frozen=True, slots=True)
class Example:
    """A job that anyone can start.

    Attributes:
        files: texts that are uploaded first, by the option that names them: a file's name, and what makes its content.
    """

    title: str
    text: str
    workload: str
    command: str
    config: dict[str, Any] = field(default_factory=dict)
    files: dict[str, tuple[str, Callable[[], str]]] = field(default_factory=dict)

    def request(self, service: Service) -> dict[str, Any]:
        """As it is submitted, its files uploaded."""
        config = dict(self.config)
        if "dataset" in config and self.command == "import":  # there may be one from the last time
            config["dataset"] = _unused(config["dataset"], service)
        for option, (name, make) in self.files.items():
            config[option] = f"upload:{service.upload(name, io.BytesIO(make().encode())).id}"  # pyright: ignore
        values = {"job_name": f"{_PREFIX}{self.title}", "workload": self.workload, "command": self.command}
        return {**values, "config": config}

    def start(self, service: Service) -> str:
        """Submits it; the id of the job."""
        return service.submit(self.request(service)).id


def _unused(name: str, service: Service) -> str:
    """A name that neither a dataset has nor one that another job makes at the moment."""
    begun = service.jobs(JobFilter(workload="data", text=_PREFIX, limit=LARGEST_PAGE)).jobs
    taken = {one["name"] for one in service.datasets()}
    taken |= {job.request.config.get("dataset") for job in begun if not job.state.ended}
    others = (f"{name}-{number}" for number in itertools.count(2))
    return next(one for one in itertools.chain([name], others) if one not in taken)


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
        "Train ordinal knowledge tracing on 300 made-up students, and see curves of its items.",
        "gpcm",
        "train",
        {"dataset": "300_20_3", "epochs": 10, "device": "cpu"},
    ),
    Example(
        "Programs on grids",
        "Run three programs on two small tasks of grids, and see which solves which.",
        "programs",
        "run",
        {"device": "cpu"},
        {"file": ("programs.py", lambda: _PROGRAMS), "data": ("tasks.json", _tasks)},
    ),
    Example(
        "Radio recordings",
        "Train a small network to locate transmitters from 1,000 made-up recordings, and see them on a map.",
        "locate",
        "train",
        {"network": "small", "epochs": 20, "device": "cpu"},
        {"dataset_ids": ("recordings.csv", _recordings)},
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
        {"source": ("numbers.csv", _table)},
    ),
)
