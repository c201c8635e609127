"""The options of `nets train`, declared once."""

from dataclasses import dataclass

from ..core.declare.config import ClusterOptions, DeviceOptions, OutOptions, SeedOptions, option


@dataclass(frozen=True, kw_only=True)
class TrainConfig(SeedOptions, DeviceOptions, ClusterOptions, OutOptions):
    """The options of `nets train`."""

    count: int = option(10_000, help="number of networks", ge=1)
    hidden: int = option(16, help="hidden units of a network", ge=1, le=4096)
    points: int = option(16, help="points that each network is trained on", ge=1, le=100_000)
    steps: int = option(200, help="steps of gradient descent", ge=1)
