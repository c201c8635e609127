"""Fits, predictions and leave-one-out on a GPU that is not there, and on a CPU. A module to be run: `on_a_card kernels
NAME ...` with the kernels interpreted, `on_a_card torch NAME ...` with what torch does in their place."""

import sys
from typing import Any

import torch
from torch import Tensor

from brimful.gp import batch_functions
from brimful.gp.batch_functions import GPModel
from brimful.gp.gpu import matrix_fit, profile
from brimful.gp.model.kernels import parse
from brimful.gp.optimize import initialization, subsets

from ...helpers.card import CARD, card

MODELS: dict[str, dict[str, Any]] = {
    "rbf": {"kernel": parse("rbf", 1, False)},
    "ard": {"kernel": parse("matern52", 2, True), "mean": "linear", "dimensions": 2},
    "shared": {"kernel": parse("rbf", 1, False), "mean": "zero", "shared": torch.linspace(0, 3, 8).double()[:, None]},
    "known": {"kernel": parse("matern32", 1, False), "mean": "linear", "known": True},
    "sgpr": {"kernel": parse("rbf", 1, False), "inducing": 4},
    "sum": {"kernel": parse("rbf + matern32", 1, False)},
    "periodic": {"kernel": parse("periodic", 1, False)},
    "product": {"kernel": parse("rbf * periodic", 1, False)},
}

NATS = {"torch": 1e-6, "kernels": 1e-4, "matrices": 1e-2}  # from the same starts, by other sums, from fewer starts


def drawn(model: GPModel) -> dict[str, Tensor]:
    """Four tasks of eight points: one that lacks two, and one that lacks all."""
    generator = torch.Generator().manual_seed(0)
    x = 3 * torch.rand(4, 8, model.dimensions, generator=generator, dtype=torch.float64)
    y = torch.sin(4 * x.sum(-1)) + 0.3 * torch.randn(4, 8, generator=generator, dtype=torch.float64)
    y[0, -2:], y[1] = torch.nan, torch.nan
    batch = {"y": y} if model.shared is not None else {"x": x, "y": y}
    return batch | ({"noise": torch.full_like(y, 0.05)} if model.known else {})


def compare(model: GPModel, device: torch.device, nats: float) -> None:
    """What a fit, predictions and leave-one-out give on both.

    Args:
        nats: by how much the likelihoods that are reached may differ.
    """
    batch, new = drawn(model), torch.linspace(0, 3, 5 * model.dimensions).double().reshape(5, -1)

    def both(function: Any, batch: dict[str, Tensor], **options: Any) -> list[Any]:
        moved = {name: value.to(device) for name, value in batch.items()}
        return [function(given, model=model, **options) for given in (batch, moved)]

    here, there = both(batch_functions.fit_batch, batch, at=new)
    reached = "lml_lower_bound" if model.inducing else "nlml"
    assert there.status.tolist() == here.status.tolist()
    torch.testing.assert_close(there.values[reached].cpu(), here.values[reached], rtol=0, atol=nats, equal_nan=True)
    parameters = {"parameters": torch.stack([here.values[name] for name in model.names], 1)}
    for function, options in ((batch_functions.predict_batch, {"at": new}), (batch_functions.loo_batch, {})):
        here, there = both(function, batch | parameters, **options)
        for name, wanted in here.items():
            torch.testing.assert_close(there[name].cpu(), wanted, rtol=1e-6, atol=1e-6, equal_nan=True)


def main(how: str, *names: str) -> None:
    initialization.WINDOWS = profile.WINDOWS = (4.0,)  # one round of the refinement
    batch_functions.has_kernels = lambda device: how != "torch" and device == CARD
    if how == "matrices":  # tasks are so many points that kernels take them as matrices
        matrix_fit.FEWEST, matrix_fit._WIDER, subsets.POINTS, subsets.STARTS = 1, 1.0, 4, 2
    with card() as device:
        for name in names or MODELS:
            compare(GPModel(**MODELS[name]), device, NATS[how])
    print("the same")


if __name__ == "__main__":
    main(*sys.argv[1:])
