"""Random masks that belong to a student and a step, and not to a batch.

Legend: B students, S steps, F features.

Dropout drawn from a generator depends on how the work is split: another micro-batch size, another device or a longer
sequence in the batch draws other masks. Here a mask is a hash of the student's seed, the step and the feature, so that
training gives the same gradient however a batch is split, and on every device.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

_MASK = 0xFFFFFFFF


def student_seeds(seed: int, epoch: int, student_B: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
    """A seed for each student in an epoch of a run."""
    base = torch.full_like(student_B, seed & _MASK)
    return _hash(_hash(_hash(base) ^ (epoch & _MASK)) ^ (student_B & _MASK))


def random_seeds(batch: int, device: torch.device) -> Int[Tensor, " B"]:
    """Seeds from torch's own generator, where none are given."""
    return torch.randint(0, 2**31, (batch,)).to(device)


def random_mask(
    seed_B: Int[Tensor, " B"], steps: int, features: int, rate: float, purpose: int
) -> Bool[Tensor, "B S F"]:
    """True with probability `rate`, independently for each student, step, feature and purpose."""
    return mask_at(seed_B[:, None], torch.arange(steps, device=seed_B.device), features, rate, purpose)


def mask_at(seed: Tensor, step: Tensor, features: int, rate: float, purpose: int) -> Bool[Tensor, "*A F"]:
    """The same for some steps: those of students' seeds, whose axes are broadcast with those of the steps."""
    feature_F = torch.arange(features, device=seed.device)
    mixed = _hash(_hash(seed & _MASK) ^ _hash(step * 2654435769 + purpose))
    return _hash(mixed[..., None] ^ _hash(feature_F + 0x5BD1E995)) < int(rate * 2**32)


def _hash(x: Tensor) -> Tensor:
    """32 well mixed bits of the lowest 32 (C. Wellons' lowbias32), as non-negative int64."""
    x = x & _MASK
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _MASK
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _MASK
    return x ^ (x >> 16)
