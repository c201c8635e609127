"""What `brimful.map` takes per item when items come one by one, in lists and generators, on a CPU.

    python benchmarks/map_items.py [--items 100000] [--out benchmarks/results/map-items-cpu.json]

The function is cheap, so nearly all of it is collecting the items into batches. Processor time, which other processes
change less than the clock's, the least of five rounds; the first round, which measures, is not counted.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch

import brimful
from brimful.core.base.formatting import format_table
from saving import save

ROUNDS = 5


def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x if x.ndim == 1 else x.sum(-1)


def forms(count: int) -> dict[str, Any]:
    """The same items in several forms; a function gives a new generator."""
    numbers = np.random.default_rng(0).normal(size=(count, 8)).astype(np.float32)
    single = numbers[:, 0].tolist()
    return {
        "one array": numbers,
        "list of arrays of 8": list(numbers),
        "list of tensors of 8": list(torch.from_numpy(numbers).unbind()),
        "list of tensors of no axis": list(torch.from_numpy(numbers[:, 0].copy()).unbind()),
        "list of numbers": single,
        "generator of numbers": lambda: iter(single),
    }


def measure(items: Any) -> float:
    """Seconds of one map."""
    least = float("inf")
    for number in range(ROUNDS + 1):
        given = items() if callable(items) else items
        began = time.process_time()
        brimful.map(double, given, device="cpu", budget="1GB", progress=False)
        if number:
            least = min(least, time.process_time() - began)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    micro = {name: measure(items) / options.items * 1e6 for name, items in forms(options.items).items()}
    report = {"torch": torch.__version__, "items": options.items, "microseconds_per_item": micro}
    beside = micro["list of arrays of 8"]
    lines = [(name, f"{value:.2f}", f"{value / beside:.2f}") for name, value in micro.items()]
    text = format_table(lines, ("items", "µs per item", "beside a list of arrays"))
    print(text)
    save(options.out, report, text)


if __name__ == "__main__":
    main()
