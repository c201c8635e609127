"""One trained network for all tests of results, stores and commands."""

from pathlib import Path

import pytest

from brimful.locate import LocateResult

from .helpers import train


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("locate") / "model"


@pytest.fixture(scope="session")
def trained(folder: Path) -> LocateResult:
    return train(out=folder)
