"""Where tensors of two devices must not meet: a batch on a GPU that is not there gives the bytes of one on a CPU."""

import os

import pytest

from ...helpers.forking import completed, run_module, run_text

soak = pytest.mark.soak

MIXED = """
import torch
from tests.helpers.card import card

with card() as device:
    there, here = torch.arange(3, device=device), torch.arange(3)
    assert (there + there).device == device and (there + 1).cpu().tolist() == [1, 2, 3]
    assert there[here].tolist() == [0, 1, 2]
    for mixing in (lambda: there + here, lambda: torch.cat([there, here]), lambda: there.numpy()):
        try:
            mixing()
        except AssertionError as error:
            print(error)
"""


def test_the_card_refuses_what_a_gpu_does():
    ended = completed(run_text, MIXED)
    said = ["aten.add.Tensor: tensors of two devices", "aten.cat.default: tensors of two devices"]
    assert ended.stdout.splitlines() == [*said, "an array of a tensor on a GPU"], ended.stderr


@pytest.mark.parametrize(
    ("how", "samples", "texts"),
    [
        ("torch", 3, ["stored", "random:20", "generated:60"]),
        ("kernels", 2, ["generated:30"]),
        pytest.param("torch", 40, ["generated:1600", "random:300"], marks=soak, id="torch-more"),
        pytest.param("kernels", 4, ["stored", "generated:400", "random:120"], marks=soak, id="kernels-more"),
    ],
)
def test_a_gpu_that_is_not_there_gives_the_bytes_of_a_cpu(how: str, samples: int, texts: list[str]):
    interpreted = {**os.environ, "TRITON_INTERPRET": "1"}
    module = "tests.programs.batched.on_a_card"
    ended = completed(run_module, module, how, str(samples), *texts, env=interpreted, timeout=3600)
    assert ended.stdout.strip() == "the same", ended.stderr[-3000:]
