"""Budgets on a CPU: what is predicted is what is used, whatever else the process loads, and more is said."""

import json
from typing import Any

import pytest

from ...helpers.forking import completed, run_text

SCRIPT = """
import json, sys
import torch
from torch import nn
import brimful

width, budget, out = int(sys.argv[1]), sys.argv[2], sys.argv[3] or None
layers = [layer for _ in range(4) for layer in (nn.Linear(width, width), nn.ReLU())]
x, said = torch.randn(256, width), []
result = brimful.train(
    nn.Sequential(*layers[:-1]),
    lambda model, batch: ((model(batch["x"]) - batch["x"]) ** 2).mean(),
    {"x": x}, epochs=2, batch_size=64, budget=budget, device="cpu", out=out,
    progress=lambda event: said.append(getattr(event, "message", "")),
)
warnings = [text for text in said if "over the budget" in text]
print(json.dumps({"predicted": result.predicted, "observed": result.observed, "warnings": warnings}))
"""


def measure(width: int, budget: str, out: str = "") -> dict[str, Any]:
    """A run in a process of its own, whose first step loads the libraries."""
    ended = completed(run_text, SCRIPT, str(width), budget, out)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("width", [1200, *(pytest.param(width, marks=pytest.mark.soak) for width in (1500, 2000))])
@pytest.mark.parametrize("kept", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_what_is_predicted_is_what_is_used(width: int, kept: bool, tmp_path: Any):
    measured = measure(width, "2GB", str(tmp_path / "run") if kept else "")
    assert measured["observed"] > 50e6
    assert measured["predicted"] == pytest.approx(measured["observed"], rel=0.2)
    assert not measured["warnings"]


def test_more_than_the_budget_is_said_and_by_how_much():
    measured = measure(40, "1MB")
    assert measured["observed"] < 20e6  # and not the libraries
    assert len(measured["warnings"]) == (measured["observed"] > 1e6)
    assert all("the peak was" in text and "over the budget of 1.00 MB" in text for text in measured["warnings"])
