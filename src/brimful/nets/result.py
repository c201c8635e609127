"""What `nets train` gives back."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.declare.result import Result
from ..engine.map.result import MapResult
from .model import DIVERGED


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NetsResult(Result):
    """The trained networks.

    Attributes:
        loss: one per network, in the order of `model.grid`; infinite where it diverged.
        diverged: how many did.
        rate: networks per second.
    """

    loss: np.ndarray
    diverged: int
    rate: float

    @classmethod
    def from_map(cls, mapped: MapResult) -> "NetsResult":
        values: Any = mapped.values
        loss, diverged = np.asarray(values["loss"]), int((mapped.status == DIVERGED).sum())
        run = {name: getattr(mapped, name) for name in ("plan", "observed", "seconds", "compiling")}
        return cls(loss, diverged, mapped.rate, **run)

    def summary(self) -> dict[str, Any]:
        finite = self.loss[np.isfinite(self.loss)]
        return {
            "networks": len(self.loss),
            "diverged": self.diverged,
            "median_loss": float(np.median(finite)) if len(finite) else None,
            "batch_size": self.plan.batch,
            "networks_per_second": self.rate,
            **Result.summary(self),
        }
