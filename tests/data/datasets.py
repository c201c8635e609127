"""What the tests of `brimful.data` share: small datasets, and whether two batches are the same."""

import threading
import time
from typing import Any

import numpy as np
import torch

from brimful.data import Loader, Padded, Ragged, loader


def small(samples: int, seed: int = 0) -> dict[str, Any]:
    """A field of each kind."""
    chance = np.random.default_rng(seed)
    lengths = chance.integers(0, 6, samples)
    values = torch.from_numpy(chance.normal(size=(int(lengths.sum()), 2)).astype(np.float32))
    return {
        "x": torch.from_numpy(chance.normal(size=(samples, 3)).astype(np.float32)),
        "y": torch.arange(samples),
        "words": Ragged(values, torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]))),
    }


def run(source: Any, **options: Any) -> Loader:
    return loader(source, **{"device": "cpu", "batch_size": 4, **options})


def parts(batch: Any) -> list[torch.Tensor]:
    """The tensors of a batch."""
    match batch:
        case dict():
            return [tensor for part in batch.values() for tensor in parts(part)]
        case tuple():
            return [tensor for part in batch for tensor in parts(part)]
        case Ragged():
            return [batch.values, batch.offsets]
    return [batch]


def same(one: Any, two: Any) -> bool:
    """Whether two batches, or lists of them, are equal to the bit."""
    if isinstance(one, list):
        return len(one) == len(two) and all(same(*pair) for pair in zip(one, two, strict=True))
    pairs = list(zip(parts(one), parts(two), strict=True))
    return type(one) is type(two) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.device == b.device and torch.equal(a, b) for a, b in pairs
    )


def unpadded(part: Padded) -> list[list[float]]:
    return [row[:length].tolist() for row, length in zip(part.values, part.lengths.tolist(), strict=True)]


def none_left() -> bool:
    """Whether the loaders' threads have all ended, which may take them a moment."""
    waited = time.monotonic() + 5
    while threads() and time.monotonic() < waited:
        time.sleep(0.01)
    return not threads()


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith(("brimful-ahead", "brimful-decode"))]
