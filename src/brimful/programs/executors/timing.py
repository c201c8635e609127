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


def recall(programs: str, executor: str, device: torch.device) -> Timing | None:
    """What was measured for programs in an earlier run, or None."""
    cost = cost_cache.recall(_key(programs, executor, device))
    return None if cost is None else Timing(cost.fixed, cost.per_unit)


def remember(programs: str, executor: str, device: torch.device, timing: Timing) -> None:
    """Keeps what was measured."""
    cost_cache.remember(
        _key(programs, executor, device), Cost(timing.fixed, timing.per_sample, margin=0.0, source="probe")
    )


def _key(programs: str, executor: str, device: torch.device) -> cost_cache.Key:
    return cost_cache.Key(f"seconds of programs {programs} {executor}", devices.model_name(device), "int64")
