"""Streams larger than memory would hold: what goes in and what comes out pass through, and the process stays small."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

SCRIPT = """
import json, sys
import pandas  # what it takes, where it is installed, is not the work's
import torch
import brimful
from brimful.devices import resident
from brimful.monitor import Peak

count, width, out, budget = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])

def items():
    for i in range(count):
        yield torch.full((width,), float(i))

sizes = []

def function(x):
    sizes.append(len(x))
    return x + 1

baseline = resident()
with Peak(torch.device("cpu"), baseline) as peak:
    result = brimful.map(function, items(), budget=budget, out=out, progress=False, device="cpu")
    ok = int(result.ok.sum())
print(json.dumps({"peak": peak.bytes, "observed": result.observed, "ok": ok, "batches": len(sizes)}))
"""


def test_a_stream_of_more_than_ten_budgets_stays_inside_one(tmp_path: Path):
    count, width, budget = 16_500, 16_384, 100_000_000
    assert count * width * 4 > 10 * budget
    out = tmp_path / "run"
    command = [sys.executable, "-c", SCRIPT, str(count), str(width), str(out), str(budget)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    written = sum(path.stat().st_size for path in out.glob("shard-*.parquet"))
    shutil.rmtree(out)
    assert found["ok"] == count
    assert written > count * width * 4
    assert found["batches"] < count / 8
    assert found["peak"] <= budget
    assert found["observed"] <= budget
