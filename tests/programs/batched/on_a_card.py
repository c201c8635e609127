"""A batch on a GPU that is not there gives the bytes of one on a CPU. A module to be run: `on_a_card kernels` with the
kernels interpreted, `on_a_card torch` with what torch does in their place."""

import importlib
import pkgutil
import sys
from typing import Any

import numpy as np
import torch

from brimful import programs
from brimful.core.memory import devices
from brimful.programs import batched

from ...helpers.card import OnCard, card


def connect(device: torch.device, kernels: bool) -> None:
    """Columns on the card are as those on a GPU."""
    devices.resolve = lambda name: device if name == str(device) else torch.device(str(name))
    for module in pkgutil.walk_packages(batched.__path__, f"{batched.__name__}."):
        if ".gpu." not in module.name:
            used: Any = importlib.import_module(module.name)
            if hasattr(used, "has_kernels"):
                used.has_kernels = lambda tensor: kernels and isinstance(tensor, OnCard)


def main(how: str, samples: str, *texts: str) -> None:
    from ..test_executors_agree import STORED, random_batt, whole_batch

    written = {"stored": lambda *_: STORED, "generated": programs.generate, "random": random_batt}
    with card() as device:
        connect(device, how == "kernels")
        for text in texts:
            kind, _, size = text.partition(":")
            source = written[kind](int(size or 0), 0)
            here, there = (whole_batch(int(samples), name, source) for name in ("cpu", str(device)))
            for one, other in zip(here, there, strict=True):
                assert np.array_equal(one, other), text
    print("the same")


if __name__ == "__main__":
    main(*sys.argv[1:])
