"""Small data and models that the tests of training share, importable by ranks in processes of their own."""

import os
import signal
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from brimful import wpo


def small(K: int = 13, n: int = 64, dtype: torch.dtype = torch.float64) -> wpo.DataSplits:
    return wpo.dataset("moons", K, samples=n, held_out=0.3).to(dtype)


def model(data: wpo.DataSplits, **options: Any) -> wpo.ScoreModel:
    return wpo.ScoreModel(data.centers_Kd, **{"hidden": 6, "depth": 2, **options})


def fit(data: wpo.DataSplits, untrained: wpo.ScoreModel | None = None, **options: Any) -> wpo.WPOResult:
    given = {"steps": 6, "batch_size": 24, "device": "cpu", "progress": False, "lr": 1e-2, **options}
    return wpo.train(model(data) if untrained is None else untrained, data.train_Nd, held_out=data.held_out_Md, **given)


def weights(result: wpo.WPOResult) -> list[torch.Tensor]:
    return [parameter.detach() for parameter in result.model.parameters()]


class KilledModel(wpo.ScoreModel):
    """A model whose second rank is killed at its third loss."""

    calls = 0

    def losses(self, *arguments: Any, **options: Any) -> Tensor:
        self.calls += 1
        if self.calls == 3 and dist.is_initialized() and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().losses(*arguments, **options)
