"""Where tensors of two devices must not meet: fits on a GPU that is not there are those on a CPU."""

import os

import pytest

from ...helpers.forking import completed, run_module

soak = pytest.mark.soak


@pytest.mark.parametrize(
    ("how", "names"),
    [
        ("torch", ["ard", "shared"]),
        pytest.param("torch", [], marks=soak, id="torch-all"),
        pytest.param("kernels", ["rbf", "shared"], marks=soak, id="kernels"),
        pytest.param("matrices", ["rbf", "known"], marks=soak, id="matrices"),
    ],
)
def test_a_gpu_that_is_not_there_fits_as_a_cpu_does(how: str, names: list[str]):
    interpreted = {**os.environ, "TRITON_INTERPRET": "1"}
    ended = completed(run_module, "tests.gp.gpu.on_a_card", how, *names, env=interpreted, timeout=3600)
    assert ended.stdout.strip() == "the same", ended.stderr[-3000:]
