"""Small training runs for the tests."""

from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import torch

from brimful import gpcm

SMALL: dict[str, Any] = {"slots": 4, "key_size": 4, "value_size": 6, "hidden": 5, "epochs": 3, "batch_size": 8}
NAME = "synthetic_OC_40_6_3"


def train(source: Any = NAME, **options: Any) -> Any:
    return gpcm.train(source, **{**SMALL, "device": "cpu", "progress": False, **options})


def weights(result: gpcm.GPCMResult) -> torch.Tensor:
    return torch.cat([weight.flatten() for weight in result.model.state_dict().values()])


def is_picture(path: Path, colors: int = 50) -> bool:
    """Whether a file is a large picture with so many colors."""
    pixels = matplotlib.image.imread(path)
    seen = len(np.unique(pixels[::5, ::5].reshape(-1, pixels.shape[2]), axis=0))
    return path.suffix == ".png" and pixels.shape[0] > 800 and pixels.shape[1] > 1200 and seen > colors
