"""Training runs in processes of their own, for tests that stop them.

Started once, it forks a process for each line it reads: a JSON object with options of `train`. The process's pid is
printed first, then what the run had to say, then `ended`.
"""

import json
import os
import sys
from typing import Any

import torch
import training

import brimful


def work(order: dict[str, Any]) -> brimful.TrainResult:
    """The run that an order asks for; the same here and in the test."""
    training.PACE["seconds"] = order["seconds"]
    options = {name: order[name] for name in ("out", "checkpoint_every", "epochs") if name in order}
    model = training.network(0.2)
    loader = {"transform": training.noisy}
    return training.fit(model, training.slowly, valid=training.points(6), ema=0.9, loader=loader, **options)


def main() -> None:
    torch.set_num_threads(1)  # threads do not outlive a fork
    for line in sys.stdin:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            print(os.getpid(), flush=True)
            try:
                print(json.dumps(f"finished {work(json.loads(line)).steps}"), flush=True)
            except BaseException as error:
                print(json.dumps(f"{type(error).__name__}: {error}"), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    main()
