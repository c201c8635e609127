"""On a CPU the plan that a run ends with is within 15% of what it took, whatever a formula said."""

import gc
from pathlib import Path

import numpy as np
import torch

import brimful
from brimful import Cost
from brimful.core.base.compilers import activity


def _work(batch: torch.Tensor) -> torch.Tensor:
    """Some 40 KB per item up to 2,000 items, and no more above: no line through two sizes describes that."""
    scratch = torch.ones(min(len(batch), 2_000), 10_000)
    return batch * scratch.sum().sign()


def test_a_formula_that_is_far_off_does_not_stay_in_the_plan(tmp_path):
    wrong = Cost(fixed=0, per_unit=200_000)
    result = brimful.map(
        _work, torch.arange(60_000.0), budget="2GB", cost=wrong, device="cpu", out=tmp_path, progress=False
    )
    assert result.observed > 50_000_000
    assert abs(result.predicted - result.observed) <= 0.15 * result.observed


def test_what_a_compiler_leaves_behind_is_not_freed_while_batches_are_measured():
    class Cycle:
        def __init__(self) -> None:
            self.own, self.kept = self, np.ones(8_000_000)  # 64 MB, until garbage is collected

    def compile_something() -> None:
        with activity.compiling():
            Cycle()

    def collect_and_double(batch: torch.Tensor) -> torch.Tensor:
        gc.collect()
        return batch.repeat(1, 100).sum(1)

    gc.disable()
    try:
        items = torch.ones(2000, 20, dtype=torch.float64)
        result = brimful.map(
            collect_and_double, items, device="cpu", warm_up=compile_something, batch_size=2000, progress=False
        )
    finally:
        gc.enable()
    assert result.predicted > 10_000_000


def test_a_run_that_has_nothing_left_to_do_is_not_warmed_up(tmp_path: Path):
    calls = list[int]()
    for _ in range(2):
        items = torch.arange(50.0)
        brimful.map(
            torch.sin, items, device="cpu", warm_up=lambda: calls.append(1), out=tmp_path / "run", progress=False
        )
    assert calls == [1]
