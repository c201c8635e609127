"""The first `gp.fit` on a machine: 50 tasks of 40 points on a CPU, in a new process with an empty cache of loops.

    python benchmarks/gp_first.py [--rounds 3] [--out RESULTS]

Wall seconds depend on what else the machine does; processor seconds, of both processes that compile, less so. Both are
medians over rounds, and count the import. "again" is the same in another process, which finds the loops on disk. On a
busy machine `chrt --rr 1 python ...` runs it before all others, as if it were quiet.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch

from brimful.core.base.formatting import format_table
from brimful.core.memory import devices
from saving import save

FIT = """
import json, resource, time
start = time.perf_counter()
import numpy as np
from brimful import gp
x, rng = np.linspace(0, 1, 40), np.random.default_rng(0)
y = np.sin(2 * np.pi * rng.uniform(1, 3, (50, 1)) * x) + rng.normal(0, 0.2, (50, 40))
inputs = x if {shared} else np.sort(rng.uniform(0, 1, (50, 40)), 1)
fit = gp.fit(inputs, y, device="cpu", progress=False)
wall, others = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
processor = time.process_time() + others.ru_utime + others.ru_stime
print(json.dumps({{"wall": wall, "processor": processor, "compiling": fit.compiling}}))
"""


def fitted(shared: bool, cache: str) -> dict[str, float]:
    source = Path(__file__).resolve().parents[1] / "src"
    places = {"PYTHONPATH": str(source), "BRIMFUL_CACHE_DIR": cache, "NUMBA_CACHE_DIR": f"{cache}/numba"}
    done = subprocess.run(
        [sys.executable, "-c", FIT.format(shared=shared)],
        env={**os.environ, **places}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def measure(rounds: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for inputs, shared in (("shared", True), ("own", False)):
        first, again = [], []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as cache:
                first.append(fitted(shared, cache))
                again.append(fitted(shared, cache))
        for name, runs in (("first", first), ("again", again)):
            medians = {key: statistics.median(one[key] for one in runs) for key in runs[0]}
            rows.append({"inputs": inputs, "run": name, **medians})
            print(rows[-1], flush=True)
    return rows


def show(report: dict[str, Any]) -> str:
    head = (
        f"{report['device']}, {report['cores']} cores, load {report['load']:.1f}, {report['priority']} priority, "
        f"torch {report['torch']}; "
        f"50 tasks of 40 points, {report['rounds']} rounds; seconds\n\n"
    )
    rows = [
        (row["inputs"], row["run"], f"{row['wall']:.1f}", f"{row['processor']:.1f}", f"{row['compiling']:.1f}")
        for row in report["rows"]
    ]
    return head + format_table(rows, ("inputs", "run", "wall", "processor", "compiling (wall)"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    report = {
        "device": devices.model_name(torch.device("cpu")),
        "cores": os.cpu_count(),
        "priority": "usual" if os.sched_getscheduler(0) == os.SCHED_OTHER else "real-time",
        "load": os.getloadavg()[0],
        "torch": torch.__version__,
        "rounds": given.rounds,
        "rows": measure(given.rounds),
    }
    print(show(report))
    save(given.out, report, show(report))


if __name__ == "__main__":
    main()
