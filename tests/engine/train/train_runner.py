"""Training runs that tests stop: an order has options of `train`, and the name of a loss that folds (stopping.py)."""

import os
from typing import Any

import torch

import brimful

from ...helpers.stopping import serve
from ..fold.folding import Bumps
from . import training

FIT_OPTIONS = ("out", "checkpoint_every", "epochs", "accumulation_steps")


def work(order: dict[str, Any]) -> brimful.TrainResult:
    """The run that an order asks for; the same here and in the test."""
    os.environ[training.PACE] = str(order["seconds"])
    options = {name: order[name] for name in FIT_OPTIONS if name in order}
    loader = {"transform": training.noisy}
    if "loss" in order:
        model, loss, dtype = Bumps(), getattr(training, order["loss"]), torch.float64
    else:
        model, loss, dtype = training.network(0.2), training.slowly, torch.float32
    data, valid = training.points(dtype=dtype), training.points(6, dtype=dtype)
    return training.fit(model, loss, data, valid=valid, ema=0.9, loader=loader, **options)


if __name__ == "__main__":
    serve(lambda order: f"finished {work(order).steps}", "torch._dynamo", "torch.fx.experimental.symbolic_shapes")
