"""What the ranks of the tests with several nodes run: a training run that something happens to.

    node_script.py OUT [WHAT [MARKER]]

WHAT is "kill" (the last rank kills itself after some steps, once: the file MARKER is there afterwards), or "slow".
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from . import training

OPTIONS: dict[str, Any] = {"batch_size": 4, "epochs": 12, "checkpoint_every": 5, "valid": training.points(6)}


class Happening:
    """The loss of the tests, to which something happens at some call. What happens does not decide the result, so its
    fingerprint is that of all of them."""

    def __init__(self, what: str = "", marker: str = "") -> None:
        self.what, self.marker, self.calls = what, marker, 0

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __call__(self, model: nn.Module, batch: dict[str, Tensor]) -> Any:
        self.calls += model.training
        if self.what == "slow" and model.training:
            time.sleep(0.05)
        last = torch.distributed.is_initialized() and (
            torch.distributed.get_rank() == torch.distributed.get_world_size() - 1
        )
        if self.what == "kill" and last and self.calls == 30 and not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return training.summed(model, batch)


def run(out: str | None, what: str = "", marker: str = "") -> Any:
    return training.fit(training.network(), Happening(what, marker), out=out, fingerprint="nodes", **OPTIONS)


if __name__ == "__main__":
    torch.set_num_threads(1)
    result = run(*sys.argv[1:])
    print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} finished, out {result.out}", flush=True)
