"""What the judges read from a network's features, in physical units.

Legend: N recordings, R receivers, K points of a grid.
"""

from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor

from ..data.features import DETECTED, Scaling
from ..physics.scenario import Scenario


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """Recordings as features have them.

    Attributes:
        receivers: (N, R, 2), metres from their centroid.
        mask: (N, R), which took part.
        detected: (N, R), which detected the transmitter.
        excess: (N, R), the measured level in dB above the transmitters' mean power; 0 where nothing was detected.
    """

    receivers: Tensor
    mask: Tensor
    detected: Tensor
    excess: Tensor

    @property
    def silent(self) -> Tensor:
        """(N, R), which took part and detected nothing."""
        return self.mask & ~self.detected

    def silent_first(self) -> Self:
        """The same, with the receivers of each recording in another order: those that detected nothing first."""
        order = self.silent.int().argsort(dim=1, descending=True, stable=True)
        both = order[..., None].expand(-1, -1, 2)
        return replace(
            self,
            receivers=self.receivers.gather(1, both),
            mask=self.mask.gather(1, order),
            detected=self.detected.gather(1, order),
            excess=self.excess.gather(1, order),
        )

    @classmethod
    def of(cls, batch: dict[str, Tensor], scaling: Scaling, scenario: Scenario) -> Self:
        features, mask = batch["features"], batch["mask"]
        detected = (features[..., DETECTED] > 0.5) & mask
        excess = scaling.levels(features, scenario.bandwidth_db) - scenario.power_dbm
        return cls(scaling.receivers(features), mask, detected, excess * detected)
