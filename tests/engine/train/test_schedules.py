"""Learning rates against torch's own schedulers."""

import math
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

from brimful import ConfigError
from brimful.engine.train.optim.schedules import (
    Constant,
    Cosine,
    FunctionSchedule,
    OneCycle,
    Plateau,
    PlateauState,
    factor,
    schedule,
    warmup_steps,
)

PER_EPOCH, STEPS, RATE = 7, 84, 0.3


def torchs(make: Any) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    scheduler, rates = make(optimizer), []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def ours(chosen: Any, warmup: int = 0) -> list[float]:
    return [RATE * factor(chosen, step, STEPS, PER_EPOCH, warmup) for step in range(STEPS)]


@pytest.mark.parametrize(("first", "grow"), [(1, 1), (2, 2), (3, 1), (1, 3)])
def test_cosine_with_warm_restarts(first: int, grow: int):
    expected = torchs(lambda each: lr_scheduler.CosineAnnealingWarmRestarts(each, first * PER_EPOCH, grow, 0.03))
    assert ours(Cosine(first_cycle=first, cycle_mult=grow, min_factor=0.1)) == pytest.approx(expected, rel=1e-9)


def test_cosine_over_the_whole_run():
    expected = torchs(lambda each: lr_scheduler.CosineAnnealingLR(each, STEPS))
    assert ours(Cosine()) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("up", [0.3, 0.1, 0.75])
def test_one_cycle(up: float):
    expected = torchs(lambda each: lr_scheduler.OneCycleLR(each, RATE, total_steps=STEPS + 1, pct_start=up))
    got = [RATE * OneCycle(pct_start=up).at(step, STEPS + 1, PER_EPOCH) for step in range(STEPS)]
    assert got == pytest.approx(expected, rel=1e-9)


def test_warm_up():
    expected = torchs(lambda each: lr_scheduler.LinearLR(each, start_factor=1 / 10, total_iters=9))
    assert ours(Constant(), warmup=10) == pytest.approx(expected, rel=1e-9)
    assert warmup_steps(0.25, 84) == 21
    assert warmup_steps(5, 84) == 5
    assert warmup_steps(0, 84) == 0


@pytest.mark.parametrize("lower", [True, False])
def test_plateau(lower: bool):
    values = [5, 4, 4, 4, 4, 3.9999, 4, 4, 3, 3, 3, 3, 3, 3, 3, math.nan, 2, 2, 2, 2, 2]
    values = values if lower else [-value + 10 for value in values]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    other = lr_scheduler.ReduceLROnPlateau(optimizer, "min" if lower else "max", factor=0.5, patience=2)
    chosen, state = Plateau(factor=0.5, patience=2), PlateauState()
    for value in values:
        other.step(value)
        state = chosen.after(state, value, lower)
        assert state.factor == pytest.approx(optimizer.param_groups[0]["lr"])
    assert state.factor < 0.5


def test_plateau_has_a_floor():
    state, chosen = PlateauState(), Plateau(patience=0, min_factor=0.05)
    for _ in range(9):
        state = chosen.after(state, 1.0, True)
    assert state.factor == 0.05


def test_by_name_and_by_function():
    assert schedule("cosine") == Cosine()
    assert schedule(OneCycle(pct_start=0.5)) == OneCycle(pct_start=0.5)
    half = schedule(lambda step, steps: 1 - step / steps)
    assert isinstance(half, FunctionSchedule)
    assert factor(half, 21, 84, 7) == 0.75
    for wrong in ("steps", 3, None):
        with pytest.raises(ConfigError, match="schedule is"):
            schedule(wrong)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Cosine(first_cycle=0), "Cosine.first_cycle is 0"),
        (lambda: Cosine(cycle_mult=0.5), "cycle_mult is at least 1"),
        (lambda: OneCycle(pct_start=1.0), "OneCycle.pct_start is 1.0"),
        (lambda: Plateau(factor=1.0), "factor is between 0 and 1"),
    ],
)
def test_wrong_options_are_refused(make: Any, told: str):
    with pytest.raises(ConfigError, match=told):
        make()
