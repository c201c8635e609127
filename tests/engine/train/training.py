"""What the tests of `train` share: small models, losses and data, and ears for the events."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import brimful
from brimful.engine.distributed.workers import Channel

from ..fold.folding import CENTERS
from ..map.mapping import EventLog

__all__ = ["EventLog"]

PACE = "BRIMFUL_TEST_SECONDS_PER_CALL"
"""The environment variable that says what a call of the loss takes: it is not a part of the loss, so that a run may be
resumed at another pace."""


def points(count: int = 24, width: int = 3, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(count, width, generator=generator, dtype=dtype)
    return {"x": x, "y": x.sum(1, keepdim=True) + 0.1 * torch.randn(count, 1, generator=generator, dtype=dtype)}


def network(dropout: float = 0.0, dtype: torch.dtype = torch.float32, seed: int = 0, width: int = 3) -> nn.Sequential:
    before = torch.get_rng_state()
    torch.manual_seed(seed)
    made = nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1)).to(dtype)
    torch.set_rng_state(before)
    return made


def squares(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return ((model(batch["x"]) - batch["y"]) ** 2).mean()


def summed(model: nn.Module, batch: dict[str, Tensor]) -> brimful.Weighted:
    error = (model(batch["x"]) - batch["y"]) ** 2
    return brimful.Weighted(error.sum(), torch.tensor(float(len(error)), dtype=error.dtype))


def slowly(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    time.sleep(float(os.environ.get(PACE, 0)))
    return squares(model, batch)


def folded(model: nn.Module, batch: dict[str, Tensor], **options: Any) -> brimful.Weighted:
    """A loss that folds over centers, with the model as its term; it takes its time, as `slowly` does."""
    time.sleep(float(os.environ.get(PACE, 0)))
    lse, mean = brimful.fold(model, CENTERS, batch["x"], **options)
    return brimful.Weighted((mean.square().sum(1) - lse).sum(), lse.new_tensor(float(len(lse))))


def folded_in_chunks(model: nn.Module, batch: dict[str, Tensor]) -> brimful.Weighted:
    return folded(model, batch, chunk_size=2, strategy="chunked")


def folded_in_tiles(model: nn.Module, batch: dict[str, Tensor]) -> brimful.Weighted:
    return folded(model, batch, chunk_size=3, strategy="gradient_accumulation", budget="1GB")


def noisy(batch: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
    """A transform that draws random numbers."""
    return {**batch, "x": batch["x"] + 0.1 * torch.randn(batch["x"].shape, generator=generator)}


def error(model: nn.Module, batches: Any) -> dict[str, float]:
    """A metric: the mean absolute error."""
    parts = [(model(batch["x"]) - batch["y"]).abs().sum() for batch in batches]
    return {"error": float(torch.stack(parts).sum()) / batches.plan.items}


def dying(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """The loss of a rank that is killed in mid-run."""
    if torch.distributed.is_initialized() and torch.distributed.get_rank() == 1 and torch.rand(()) < 0.2:
        os.kill(os.getpid(), signal.SIGKILL)
    return squares(model, batch)


def failing(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    raise ValueError("a mistake in the loss")


def fit(model: nn.Module | None = None, loss: Any = squares, data: Any = None, **options: Any) -> brimful.TrainResult:
    """A silent run on the CPU, of three epochs of six batches unless said otherwise."""
    settings: dict[str, Any] = {"epochs": 3, "batch_size": 4, "lr": 0.02, "device": "cpu", "progress": False}
    model = network() if model is None else model
    return brimful.train(model, loss, points() if data is None else data, **{**settings, **options})


def fit_launched(
    channel: Channel, variables: dict[str, Any], folder: Path, happens: str = "", **options: Any
) -> dict[str, Any]:
    """A rank that finds the others by the variables of the environment that torchrun sets.

    Args:
        happens: on rank 1, at the third call of the loss: "fails", or "sigterm".
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as in a process that torchrun starts
    os.environ.update({name: str(value) for name, value in variables.items()})
    loss = Happening(happens) if variables["RANK"] == 1 else Happening()
    result = fit(network(), loss, batch_size=7, out=folder / "run", fingerprint="launched", **options)
    return {"weights": weights(result.model), "out": result.out, "budget": result.plan.budget}


class Happening:
    """The loss `summed`, in which something happens. That is no part of what it computes, nor of its fingerprint.

    Args:
        happens: "fails" or "sigterm", at the third call; "kill", at the 30th call and on the last rank; "slow".
        marker: a file that is there once it was killed: it happens once.
    """

    def __init__(self, happens: str = "", marker: str = "") -> None:
        self.happens, self.marker, self.calls = happens, marker, 0

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __call__(self, model: nn.Module, batch: dict[str, Tensor]) -> brimful.Weighted:
        self.calls += model.training
        if self.happens == "slow" and model.training:
            time.sleep(0.05)
        elif self.happens == "kill" and self.calls == 30 and _is_last() and not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.happens == "fails" and self.calls == 3:
            raise ValueError("a mistake on one node")
        elif self.happens == "sigterm" and self.calls == 3:
            signal.raise_signal(signal.SIGTERM)
        return summed(model, batch)


def _is_last() -> bool:
    ranks = torch.distributed
    return ranks.is_initialized() and ranks.get_rank() == ranks.get_world_size() - 1


def weights(model: nn.Module) -> Tensor:
    return torch.cat([each.detach().reshape(-1) for each in model.parameters()])


def equal(first: nn.Module, second: nn.Module) -> bool:
    """Whether two models have the same weights and buffers, to the bit."""
    one, other = first.state_dict(), second.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
