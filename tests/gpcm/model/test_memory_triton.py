"""The fused kernels against the loop: compiled where there is a GPU, interpreted where there is none."""

import os
import subprocess
import sys

import pytest
import torch

from ...helpers.paths import ROOT

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the kernels are defined

pytest.importorskip("triton")

from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.gpcm.model import memory, memory_triton
from brimful.gpcm.model.memory_triton import MemoryLaunch, fused, launch_for

from ..helpers.recurrence import Case, cases, draw, gap, numbers, plain

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = MemoryLaunch(tile=4, warps=1, steps=4, programs=2)
LAUNCHES = [SMALL, MemoryLaunch(tile=8, warps=1, steps=1), MemoryLaunch(tile=2, warps=2, steps=3, programs=5), None]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def poisoned():
    """Memory that nobody wrote to is not a number, instead of what happens to be there."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("launch", LAUNCHES)
def test_it_is_the_loop(launch: MemoryLaunch | None):
    case = draw(3, 7, 5, 6, 4, 3, own=launch is None, lengths=[7, 4, 0])
    assert gap(numbers(fused, case.to(DEVICE), launch=launch), plain(case)) < 1e-10


@pytest.mark.soak
@pytest.mark.usefixtures("poisoned")
@settings(max_examples=100)
@given(cases(most_steps=9, most_values=11), st.booleans(), st.sampled_from(LAUNCHES))
def test_any_case_is_the_loop(case: Case, final: bool, launch: MemoryLaunch | None):
    assert gap(numbers(fused, case.to(DEVICE), final, launch=launch), plain(case, final)) < 1e-10


def test_many_steps_on_one_row_are_shared_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory_triton, "STEPS_OF_A_PROGRAM", 8)
    case = draw(2, 19, 2, 3, 1, 1, lengths=[19, 18])
    assert gap(numbers(fused, case.to(DEVICE), launch=MemoryLaunch(tile=4, warps=1, steps=16)), plain(case)) < 1e-10


def test_a_read_does_not_know_its_own_answer_nor_later_ones():
    case = draw(2, 9, 3, 5, 4, 3, lengths=[9, 9]).to(DEVICE)
    reads = fused(*case, launch=SMALL)[0]
    row_BS = case.row_BS.clone()
    row_BS[:, 5] = (row_BS[:, 5] + 1) % len(case.e_RD)
    other = fused(*case._replace(row_BS=row_BS), launch=SMALL)[0]
    assert torch.equal(other[:, :6], reads[:, :6]) and not torch.equal(other[:, 6], reads[:, 6])


def test_single_precision_loses_little():
    case = draw(2, 30, 7, 6, 3, 2, seed=3)
    assert gap(numbers(fused, case.to(torch.float32).to(DEVICE)), plain(case)) < 5e-6


def test_without_gradients_it_gives_the_same_bits():
    case = draw(2, 9, 3, 5, 4, 3).to(DEVICE)
    with torch.no_grad():
        reads = memory.run(*case, engine="fused")[0]
    assert torch.equal(reads, memory.run(*case, engine="fused")[0].detach())


def test_the_launch_is_within_what_the_kernels_take():
    for N in (1, 2, 7, 50, 64, 65, 300, 512):
        for D in (1, 3, 50, 128, 200, 1000):
            for kind in (torch.float32, torch.float64):
                launch = launch_for(N, D, kind)
                assert launch.tile.bit_count() == 1 and launch.warps.bit_count() == 1
                assert launch.warps <= 8 and launch.tile <= 32
    assert launch_for(50, 200) == MemoryLaunch(tile=32, warps=2, steps=16)


@pytest.mark.gpu
@pytest.mark.parametrize("tile", [8, 16, 32, 64])
@pytest.mark.parametrize("warps", [1, 2, 4])
def test_every_tile_compiled_is_the_loop(tile: int, warps: int):
    case = draw(7, 77, 50, 200, 30, 4, seed=tile)
    launch = MemoryLaunch(tile=tile, warps=warps, steps=16, programs=11)
    assert gap(numbers(fused, case.to(torch.float32).to("cuda"), launch=launch), plain(case)) < 5e-6


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("B", "S", "N", "D"), [(64, 300, 50, 200), (5, 33, 1, 1), (3, 50, 300, 70), (200, 100, 20, 50)]
)
def test_compiled_in_both_precisions(B: int, S: int, N: int, D: int):
    case = draw(B, S, N, D, 40, 4, own=B == 5)
    wanted = [each.cpu() for each in plain(case.to("cuda"))]
    assert gap(numbers(fused, case.to("cuda")), [each.to("cuda") for each in wanted]) < 1e-10
    single = case.to(torch.float32).to("cuda")
    found = numbers(fused, single)
    assert gap(found, [each.to("cuda") for each in wanted]) < 5e-6
    assert all(torch.equal(one, two) for one, two in zip(found, numbers(fused, single), strict=True))


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_the_default_launch_spills_no_register(kind: str):
    script = ROOT / "tests/gpcm/helpers/registers.py"
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    process = subprocess.run(
        [sys.executable, script, "50", "200", kind], capture_output=True, text=True, check=True, env=environment
    )
    kernels = [line.split() for line in process.stdout.splitlines()]
    assert [name for name, _, _ in kernels] == ["forward", "backward"]
    assert all(int(used) < 255 and int(spilt) == 0 for _, used, spilt in kernels), process.stdout
