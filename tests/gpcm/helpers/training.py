"""Small training runs for the tests."""

from typing import Any

import torch

from brimful import gpcm

SMALL: dict[str, Any] = {"slots": 4, "key_size": 4, "value_size": 6, "hidden": 5, "epochs": 3, "batch_size": 8}
NAME = "synthetic_OC_40_6_3"


def train(source: Any = NAME, **options: Any) -> Any:
    settings: dict[str, Any] = {**SMALL, "device": "cpu", "progress": False, **options}
    return gpcm.train(source, **settings)


def weights(result: gpcm.GPCMResult) -> torch.Tensor:
    return torch.cat([weight.flatten() for weight in result.model.state_dict().values()])
