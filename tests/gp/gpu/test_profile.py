"""The refined profile against its plain twin: compiled where there is a GPU, interpreted where there is none."""

import math
import os

import pytest
import torch
from torch import Tensor

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the kernel is defined

pytest.importorskip("triton")

from brimful.gp.gpu import profile
from brimful.gp.model.kernels import parse
from brimful.gp.model.priors import limits
from brimful.gp.model.tasks import Units
from brimful.gp.optimize import initialization

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TASKS = 40


def valleys() -> tuple[Tensor, Tensor, Tensor]:
    """Of every task the places and the depths of some valleys along the lengthscale, and where it has no score."""
    generator = torch.Generator().manual_seed(5)
    places = -4 + 5 * torch.rand(TASKS, 6, generator=generator, dtype=torch.float64)
    depths = 4 * torch.rand(TASKS, 6, generator=generator, dtype=torch.float64)
    beyond = torch.where(torch.arange(TASKS) % 4 == 0, -1.5, math.inf).double()
    beyond[7] = -math.inf
    return places.to(DEVICE), depths.to(DEVICE), beyond.to(DEVICE)


@pytest.mark.parametrize(
    ("known", "starts", "together", "windows"),
    [
        (False, 1, 64, (4.0,)),
        pytest.param(False, 2, 32, (3.0, 2.0), marks=pytest.mark.soak),
        pytest.param(True, 1, 32, initialization.WINDOWS, marks=pytest.mark.soak),
        pytest.param(False, 5, 16, initialization.WINDOWS, marks=pytest.mark.soak),
    ],
)
def test_it_finds_the_local_minima_of_its_twin(
    known: bool, starts: int, together: int, windows: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(profile, "_TASKS", together)
    for module in (profile, initialization):
        monkeypatch.setattr(module, "WINDOWS", windows)
    kernel, one = parse("rbf"), torch.ones(TASKS, dtype=torch.float64, device=DEVICE)
    within = limits(kernel, Units(one[:, None], one[:, None], one, one), None, None, known)
    grid_GP, axes = initialization.grid(kernel, within)
    places, depths, beyond = valleys()
    listed = []

    def height(index_L: Tensor, theta_LP: Tensor) -> Tensor:
        index_L = index_L.long()
        length, ratio = theta_LP[:, 1], theta_LP[:, 0 if known else 2]
        own = 30 * (length[:, None] - places[index_L]).square() + depths[index_L]
        score_L = own.amin(1) + 0.2 * (ratio + 3 + 2 * length).square()
        return torch.where(length > beyond[index_L], math.inf, score_L)

    def score(index_L: Tensor, theta_LP: Tensor) -> Tensor:
        listed.append(len(index_L))
        return height(index_L, theta_LP)

    every, (G, P) = torch.arange(TASKS, device=DEVICE), grid_GP.shape
    grid_TGP = grid_GP.expand(TASKS, G, P)
    score_TG = height(every.repeat_interleave(G), grid_TGP.reshape(-1, P)).view(TASKS, G)
    evaluated = []

    def scored(index_L: Tensor, theta_LP: Tensor) -> tuple[Tensor, Tensor]:
        evaluated.append(len(index_L))
        theta_LP = initialization.clamp_to_bounds(theta_LP, within.select(index_L))
        return theta_LP, height(index_L, theta_LP)

    wanted_TSP, wanted_T = initialization.profile_minima(grid_TGP, score_TG, grid_GP, axes, every, scored, starts)

    # The kernels have the least noise first and tasks innermost, here of the tasks from the fourth on.
    U, N, first, T = axes[0], axes[2], 3, TASKS - 3
    theta_LP = grid_GP.view(U, N, P).transpose(0, 1).reshape(G, 1, P).expand(G, T, P).reshape(-1, P).contiguous()
    score_L = score_TG[first:].view(T, U, N).permute(2, 1, 0).reshape(-1).contiguous()
    starts_TSP = torch.full((TASKS, starts, P), math.nan, dtype=torch.float64, device=DEVICE)
    count_T = torch.full((TASKS,), -1, dtype=torch.int32, device=DEVICE)
    bounds = within.low_TP, within.high_TP, within.fixed_P.view(torch.int8)
    profile.refine(theta_LP, score_L, grid_GP.view(U, N, P), bounds, first, T, score, starts_TSP, count_T)

    assert count_T[:first].tolist() == [-1] * first and count_T[first:].tolist() == wanted_T[first:].tolist()
    assert count_T[7] == 0 and int(wanted_T.max()) == starts
    for task, count in enumerate(wanted_T.tolist()):
        if task >= first:
            torch.testing.assert_close(starts_TSP[task, :count], wanted_TSP[task, :count], rtol=1e-6, atol=1e-6)
    assert len(listed) == len(evaluated) and all(fewer <= more for fewer, more in zip(listed, evaluated, strict=True))
