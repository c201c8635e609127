"""What every test gets: a cache directory of its own, and a reason where it cannot run here."""

import os

import pytest
import torch
from hypothesis import HealthCheck, settings

# The same examples each time in `make test`, so that it says something about the change; new ones in `make soak`.
settings.register_profile(
    "brimful",
    deadline=None,
    max_examples=100,
    derandomize="BRIMFUL_SOAK" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("brimful")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device, and torch sees none here")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def cache_dir(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    """The user's own cache is neither read nor written."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("BRIMFUL_CACHE_DIR", str(folder))
    return folder
