"""`gpcm.find_lr`: a good learning rate for a dataset."""

from dataclasses import replace
from typing import Any, Unpack

from ...core.declare.config import build
from ...core.memory.budget import BudgetLike
from ...core.memory.devices import DeviceLike
from ...engine.train import find_lr as search
from ...engine.train.learning_rate import LearningRates
from ..keywords import GPCMKeywords
from ..options import TrainConfig
from .datasets import load_dataset
from .fit import set_up, tensors

_OF_SEARCH = ("lr", "schedule", "steps", "epochs", "first_cycle", "cycle_mult", "warmup", "patience", "ema", "ema_span")
_OF_VALIDATION = ("monitor", "mode", "min_delta", "best")


def find_lr(
    source: Any,
    *,
    low: float = 1e-5,
    high: float = 1.0,
    budget: BudgetLike = None,
    device: DeviceLike = "auto",
    **options: Unpack[GPCMKeywords],
) -> LearningRates:
    """A learning rate for `gpcm.train`: the model is trained for some steps with a rate that grows; see
    `brimful.find_lr`.

    Args:
        source, options: as in `gpcm.train`; the schedule and the number of epochs are the search's own.
        low, high: from which rate to which; in 100 steps, or as many as the option `steps` says.

    Example:
        >>> find_lr("120_10_3", steps=30, batch_size=16, device="cpu").suggestion > 1e-5
        True
    """
    config = replace(build(TrainConfig, {"dataset": str(source), **options}), budget=budget, device=device)
    setup = set_up(load_dataset(source, config), config)
    own = (*_OF_SEARCH, *_OF_VALIDATION)
    settings = {name: value for name, value in setup.settings.items() if name not in own}
    settings |= {"low": low, "high": high, "steps": config.steps or 100, "device": device, "budget": budget}
    return search(setup.model, setup.loss, tensors(setup.train), **settings)
