"""One trained model for all tests of results, stores and training."""

import pytest

from brimful import gpcm

from .helpers.training import train


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> gpcm.GPCMResult:
    return train(out=tmp_path_factory.mktemp("runs") / "one", int8=True, predict_by="mean")
