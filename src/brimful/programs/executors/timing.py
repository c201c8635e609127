"""What a batch takes by its size, in seconds: measured, and remembered where `map` remembers what it takes in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch

from ...core.memory import cost_cache, devices
from ...core.memory.cost import Cost


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of a batch: `fixed + per_sample * samples`."""

    fixed: float
    per_sample: float

    def at(self, samples: float) -> float:
        """For so many samples."""
        return self.fixed + self.per_sample * samples

    @classmethod
    def fit(cls, measured: Sequence[tuple[int, float]]) -> Self:
        """The line nearest to measured (samples, seconds)."""
        cost = Cost.fit(measured, margin=0.0)
        return cls(cost.fixed, cost.per_unit)

    @classmethod
    def of_one(cls, samples: int, seconds: float) -> Self:
        """What a single batch says of batches about as large: half of its time is taken to be fixed."""
        return cls(seconds / 2, seconds / 2 / max(1, samples))


def recall(programs: str, executor: str, device: torch.device, samples: int = 1) -> Timing | None:
    """What was measured for programs in an earlier run of about as many samples, or None."""
    cost = cost_cache.recall(_key(programs, executor, device, samples))
    return None if cost is None else Timing(cost.fixed, cost.per_unit)


def recall_fewer(programs: str, executor: str, device: torch.device, samples: int) -> Timing | None:
    """What was measured in the largest earlier run of clearly fewer samples, or None."""
    while samples := samples >> 3:
        if (timing := recall(programs, executor, device, samples)) is not None:
            return timing
    return None


def remember(programs: str, executor: str, device: torch.device, timing: Timing, samples: int = 1) -> None:
    """Keeps what was measured in a run of so many samples."""
    cost_cache.remember(
        _key(programs, executor, device, samples), Cost(timing.fixed, timing.per_sample, margin=0.0, source="probe")
    )


def _key(programs: str, executor: str, device: torch.device, samples: int) -> cost_cache.Key:
    """Small batches say little of much larger ones in the batched executor, whose fixed costs are most of theirs."""
    about = f" {samples.bit_length() // 3}" if executor == "batched" else ""
    return cost_cache.Key(f"seconds of programs {programs} {executor}{about}", devices.model_name(device), "int64")
