"""What the ranks of the tests with several nodes run: node_script.py OUT [WHAT [MARKER]], see `training.Happening`."""

import os
import sys
from typing import Any

import torch

from . import training

OPTIONS: dict[str, Any] = {"batch_size": 4, "epochs": 12, "checkpoint_every": 5, "fingerprint": "nodes"}


def run(out: str | None, happens: str = "", marker: str = "") -> Any:
    loss = training.Happening(happens, marker)
    return training.fit(training.network(), loss, out=out, valid=training.points(6), **OPTIONS)


if __name__ == "__main__":
    torch.set_num_threads(1)
    result = run(*sys.argv[1:])
    print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} finished, out {result.out}", flush=True)
