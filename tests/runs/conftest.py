"""The small runs, each made once."""

from pathlib import Path
from typing import Any

import pytest

from ..helpers.stopping import Orders
from .small_runs import MADE

KILLED_AFTER = {"map": 3, "train": 2, "gp": 2, "gpcm": 2, "folds": 5, "wpo": 2, "programs": 1}
"""Batches or epochs of a run before it is killed."""


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    """The folder of a finished run of each kind, and its result; the folders are not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    return {name: (folder / name, make(folder / name)) for name, make in MADE.items()}


@pytest.fixture(scope="session")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of a run of each kind that was killed in the middle; not to be changed either."""
    folder = tmp_path_factory.mktemp("killed")
    with Orders("tests.runs.kill_runner") as runs:
        for kind, after in KILLED_AFTER.items():
            runs.start(kind=kind, out=str(folder / kind), after=after)
            assert (said := runs.say()) == "ended", f"{kind} was not killed: {said}"
    return {kind: folder / kind for kind in KILLED_AFTER}
