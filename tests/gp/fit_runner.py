"""Fits in processes of their own, for tests that stop them.

Started once, it forks a process for each line it reads: a JSON object with the kind of data and the options of a fit.
The process's pid is printed first, then `ended` when it has.
"""

import json
import os
import sys
from typing import Any

import torch
from small import rows

from brimful import gp

COUNT, POINTS = 8_000, 20


def work(order: dict[str, Any]) -> gp.Fit:
    """The fit that an order asks for; the same here and in the test."""
    options = {name: value for name, value in order.items() if name != "data"}
    if order["data"] == "ragged":
        x, y = rows(0, COUNT, POINTS)
        data: Any = [(x[task, : 3 + task % 18], y[task, : 3 + task % 18]) for task in range(COUNT)]
    else:
        data = gp.synthetic(COUNT, POINTS, shared=order["data"] == "shared")
    return gp.fit(data, device="cpu", progress=False, **options)


def main() -> None:
    torch.set_num_threads(1)  # threads do not outlive a fork
    for line in sys.stdin:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            print(os.getpid(), flush=True)
            work(json.loads(line))
            os._exit(0)
        os.waitpid(child, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    main()
