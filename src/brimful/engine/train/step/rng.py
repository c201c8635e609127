"""Random numbers of a step: a function of (seed, step, rank) alone.

Torch's generators are seeded anew before every step, so that dropout draws the same numbers after a resume, and when a
step is repeated because memory ran out; a checkpoint has no generator's state to keep.
"""

import contextlib
import hashlib

import torch

STEP, EVALUATION, PROBE = range(3)  # what the numbers are for


def derive_seed(seed: int, use: int, step: int, rank: int) -> int:
    text = b"brimful" + b"".join(part.to_bytes(8, "little") for part in (seed, use, step, rank))
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


def seed_generators(device: torch.device, seed: int) -> None:
    """Seeds the CPU's generator and the device's."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)


def preserve_rng(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Inside, torch's generators may be seeded at will; afterwards they are as they were."""
    return torch.random.fork_rng([device] if device.type == "cuda" else [])
