"""Streams larger than memory would hold: what goes in and what comes out pass through, and the process stays small."""

import json
import shutil
from pathlib import Path

import pytest

from ...helpers.forking import completed, run_text

WIDTH, BUDGET = 16_384, 100_000_000

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


def measure(folder: Path, count: int) -> dict[str, int]:
    """What a stream of that many items took, and in how many batches."""
    ended = completed(run_text, SCRIPT, str(count), str(WIDTH), str(folder), str(BUDGET))
    assert ended.returncode == 0, ended.stderr
    written = sum(path.stat().st_size for path in folder.glob("shard-*.parquet"))
    shutil.rmtree(folder)
    assert written > count * WIDTH * 4
    return json.loads(ended.stdout)


@pytest.mark.parametrize("budgets", [2, pytest.param(10, marks=pytest.mark.soak)])
def test_a_stream_of_many_budgets_stays_inside_one(tmp_path: Path, budgets: int):
    count = budgets * BUDGET // (4 * WIDTH) + 1
    measured = measure(tmp_path / "run", count)
    assert measured["ok"] == count
    assert measured["peak"] <= BUDGET
    assert measured["observed"] <= BUDGET


@pytest.mark.soak
def test_a_stream_is_run_in_large_batches(tmp_path: Path):
    """Not in the default run: what a process keeps, and so what a batch seems to take, varies on a busy machine."""
    assert measure(tmp_path / "run", 16_500)["batches"] < 16_500 / 8
