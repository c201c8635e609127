"""`wpo.find_lr`: a good learning rate for a score model."""

from typing import Any, Unpack

from ...core.declare.config import build
from ...core.memory.budget import BudgetLike
from ...core.memory.devices import DeviceLike
from ...engine.train import find_lr as search
from ...engine.train.learning_rate import LearningRates
from ..keywords import ScoreTrainKeywords
from ..model.score_model import ScoreModel
from ..options import ScoreTrainOptions
from .train import call_engine, prepare

_OF_SEARCH = ("lr", "schedule", "epochs", "first_cycle", "cycle_mult", "warmup")
_OF_LONG_RUNS = ("patience", "min_delta", "ema", "ema_span")


def find_lr(
    model: ScoreModel,
    samples: Any,
    *,
    low: float = 1e-5,
    high: float = 1.0,
    budget: BudgetLike = None,
    device: DeviceLike = "auto",
    seed: int = 0,
    **options: Unpack[ScoreTrainKeywords],
) -> LearningRates:
    """A learning rate for `wpo.train`: a copy of the model is trained for some steps with a rate that grows; see
    `brimful.find_lr`. The model is not changed.

    Args:
        model, samples, options: as in `wpo.train`; the schedule is the search's own.
        low, high: from which rate to which; in 100 steps, or as many as the option `steps` says.

    Example:
        >>> import torch
        >>> x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
        >>> find_lr(ScoreModel(x[:50]), x[50:], steps=30, batch_size=50, device="cpu").suggestion > 1e-5
        True
    """
    config, steps = build(ScoreTrainOptions, dict(options)), options.get("steps") or 100
    _, prepared = prepare(model, samples, 0.1, budget, device, seed, config)

    def engine(model: ScoreModel, loss: Any, data: Any, *, valid: Any, **given: Any) -> LearningRates:
        given = {name: value for name, value in given.items() if name not in (*_OF_SEARCH, *_OF_LONG_RUNS)}
        return search(model, loss, data, **given | {"low": low, "high": high, "steps": steps})

    return call_engine(engine, model, config, *prepared, budget=budget, device=device, seed=seed)
