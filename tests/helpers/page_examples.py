"""What the examples of the guides speak of and do not make themselves: small data, and small numbers in place of those
that a reader would use."""

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True, slots=True)
class PageExamples:
    """How the examples of a page are run, one after the other with the same names.

    Attributes:
        given: the names that they use.
        smaller: texts of the page, and what stands in their place when it is run.
        files: writes the files that they read into the current folder.
        left_out: indices of those that show a form and are not run, with the reason.
    """

    given: Callable[[], dict[str, Any]] = dict
    smaller: dict[str, str] = field(default_factory=dict)
    files: Callable[[], None] | None = None
    left_out: dict[int, str] = field(default_factory=dict)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


_SMALL_BUDGET = {'budget="8GB"': 'budget="1GB", device="cpu"'}


def _data() -> dict[str, Any]:
    return {"x": random(600, 3), "y": random(600), "patient": torch.arange(600) // 3, "checkpoint": {}}


def _fold() -> dict[str, Any]:
    return {"points": random(30, 4).requires_grad_(), "x": random(20, 4)}


def _gp() -> dict[str, Any]:
    x = np.linspace(0, 1, 40)
    y = np.sin(np.outer(np.arange(1, 6), 4 * x)) + np.random.default_rng(0).normal(0, 0.1, (5, 40))
    return {"torch": torch, "y": y, "pairs": [(x, row) for row in y[:2]]}


def _table(name: str, header: str, rows: list[tuple[Any, ...]]) -> None:
    with Path(name).open("w", newline="") as file:
        csv.writer(file).writerows([header.split(), *rows])


def _answers() -> None:
    rows = [(student, f"{question}", (question + len(student)) % 4, question) for student in ("anna", "ben")
            for question in range(1, 8)]  # fmt: skip
    _table("new.csv", "student question response order", rows)


def _recordings() -> None:
    from brimful import locate

    made = locate.generate(2, locate.Scenario(), seed=9)  # by the receivers that the page's model is trained with
    rows = [
        (f"r{recording}", *made.positions[recording, receiver].tolist(), 12.0 - receiver, -140.0 - receiver)
        for recording in range(2)
        for receiver in range(6)
    ]
    _table("own.csv", "recording latitude longitude snr_db psd_dbm_hz", rows)


def _solvers() -> None:
    steps = ("x = objects(I, T, F, T)", "y = argmax(x, size)", "O = subgrid(y, I)", "return O")
    program = "\n    ".join(("def solve_{}(I):", *steps)) + "\n\n"
    names = ["007bbfb7", *(f"{number:08d}" for number in range(20))]
    Path("solvers.py").write_text("".join(program.format(name) for name in names))
    solved = {"input": [[0, 2], [0, 2]], "output": [[2], [2]]}
    empty = {"input": [[0, 0], [0, 0]], "output": [[0]]}  # without an object: the largest of none
    Path("tasks").mkdir()
    Path("tasks/007bbfb7.json").write_text(json.dumps({"train": [solved], "test": [empty]}))


def _sample() -> dict[str, Any]:
    return {"task_id": "007bbfb7", "S": (), "I": ((1, 2), (3, 4)), "C": ()}


EXAMPLES = {
    "docs/data.md": PageExamples(_data, {**_SMALL_BUDGET, 'reserve="2GB"': 'reserve="100MB"'}),
    "docs/fold.md": PageExamples(
        _fold, {'budget="8GB"': 'budget="1GB"'}, left_out={1: "needs ranks", 2: "shows a form"}
    ),
    "docs/gp.md": PageExamples(
        _gp,
        {
            **_SMALL_BUDGET,
            ".predict(...)": ".predict([0.5])",
            "gp.fit(x, y, kernel=gp": "gp.fit(x[:9], y[:2, :9], kernel=gp",
            "inducing=256": "inducing=8",
        },
    ),
    "docs/map.md": PageExamples(),
    "docs/programs.md": PageExamples(
        _sample, {'"arcagi"': '"tasks"'}, _solvers, {1: "a program, which programs.loads takes", 2: "another"}
    ),
    "docs/workloads.md": PageExamples(),
    "docs/gpcm.md": PageExamples(
        smaller={'"5000_200_4", epochs=30': '"40_10_4", epochs=2, batch_size=20, device="cpu", progress=False'},
        files=_answers,
    ),
    "docs/locate.md": PageExamples(
        smaller={
            "200_000": "600",
            "epochs=40, batch_size=256": 'network="small", epochs=1, batch_size=100, device="cpu", progress=False',
        },
        files=_recordings,
    ),
    "docs/wpo.md": PageExamples(
        lambda: {"x": random(5, 2)},
        {
            **_SMALL_BUDGET,
            "centers=1000": "centers=50",
            "steps=3000": "steps=5, progress=False",
            "sample(1000)": "sample(10)",
        },
    ),
}
"""By page. Others are run elsewhere: README.md, getting-started.md and how-to/ in test_pages.py, train.md by tests of
`train`, serve.md by those of the service's client, postgres.md by those of the database."""
