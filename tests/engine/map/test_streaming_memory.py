"""Streams larger than memory would hold: what goes in and what comes out pass through, and the process stays small."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COUNT, BUDGET = 16_500, 100_000_000

SCRIPT = """
import json, sys
import pandas  # what it takes, where it is installed, is not the work's
import torch
import brimful
from brimful.core.memory.devices import resident_bytes
from brimful.core.memory.monitor import Peak

count, width, out, budget = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])

def items():
    for i in range(count):
        yield torch.full((width,), float(i))

sizes = []

def function(x):
    sizes.append(len(x))
    return x + 1

baseline = resident_bytes()
with Peak(torch.device("cpu"), baseline) as peak:
    result = brimful.map(function, items(), budget=budget, out=out, progress=False, device="cpu")
    ok = int(result.ok.sum())
print(json.dumps({"peak": peak.bytes, "observed": result.observed, "ok": ok, "batches": len(sizes)}))
"""


@pytest.fixture
def found(tmp_path: Path) -> dict[str, int]:
    """What a stream of more than ten budgets took, and in how many batches."""
    count, width, budget = COUNT, 16_384, BUDGET
    assert count * width * 4 > 10 * budget
    out = tmp_path / "run"
    command = [sys.executable, "-c", SCRIPT, str(count), str(width), str(out), str(budget)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    written = sum(path.stat().st_size for path in out.glob("shard-*.parquet"))
    shutil.rmtree(out)
    assert written > count * width * 4
    return found


def test_a_stream_of_more_than_ten_budgets_stays_inside_one(found: dict[str, int]):
    assert found["ok"] == COUNT
    assert found["peak"] <= BUDGET
    assert found["observed"] <= BUDGET


@pytest.mark.soak
def test_and_in_batches_worth_the_name(found: dict[str, int]):
    """Not in the default run: what a process keeps, and so what a batch seems to take, varies on a busy machine."""
    assert found["batches"] < COUNT / 8
