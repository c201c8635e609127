"""Training runs that tests stop: an order has options of `train` (stopping.py)."""

import os
from typing import Any

import brimful

from ...helpers.stopping import serve
from . import training


def work(order: dict[str, Any]) -> brimful.TrainResult:
    """The run that an order asks for; the same here and in the test."""
    os.environ[training.PACE] = str(order["seconds"])
    options = {name: order[name] for name in ("out", "checkpoint_every", "epochs") if name in order}
    model = training.network(0.2)
    loader = {"transform": training.noisy}
    return training.fit(model, training.slowly, valid=training.points(6), ema=0.9, loader=loader, **options)


if __name__ == "__main__":
    serve(lambda order: f"finished {work(order).steps}")
