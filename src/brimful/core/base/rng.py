"""Random numbers of a step or a batch: a function of the seed and the place of it alone.

The generators of torch, numpy and Python are seeded anew before every training step and every batch of a map, so that
dropout draws the same numbers after a resume, when a step is repeated because memory ran out, and when a neighbor
fails; a checkpoint has no generator's state to keep.
"""

import contextlib
import hashlib
import random
from collections.abc import Iterator

import numpy as np
import torch

STEP, EVALUATION, PROBE, BATCH = range(4)  # what the numbers are for


def derive_seed(seed: int, use: int, step: int, rank: int = 0) -> int:
    text = b"brimful" + b"".join(part.to_bytes(8, "little") for part in (seed, use, step, rank))
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


def seed_generators(device: torch.device, seed: int) -> None:
    """Seeds the global generators of torch, on the CPU and on the device, of numpy and of Python."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)  # as one number: as an array it would take eight times as long
    random.seed(seed)


@contextlib.contextmanager
def preserve_rng(device: torch.device) -> Iterator[None]:
    """Inside, the global generators may be seeded at will; afterwards they are as they were."""
    before = np.random.get_state(), random.getstate()
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        np.random.set_state(before[0])
        random.setstate(before[1])
