"""On a CPU the plan that a run ends with is within 15% of what it took, whatever a formula said."""

import torch

import brimful
from brimful import Cost


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
