"""The small runs, each made once."""

from pathlib import Path
from typing import Any

import pytest

from .small_runs import MADE


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    """The folder of a finished run of each kind, and its result; the folders are not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    return {name: (folder / name, make(folder / name)) for name, make in MADE.items()}
