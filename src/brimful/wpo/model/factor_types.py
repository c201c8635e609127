"""The kinds of factors by name."""

from ...core.base.errors import ConfigError
from .factors import Factor
from .low_rank import LowRank
from .triangular import Triangular

FACTORS = ("triangle", "lowrank")


def factor_of(name: str, d: int, floor: float, rank: int) -> Factor:
    """A kind of factor by its name."""
    if name == "triangle":
        return Triangular(d, floor)
    if name == "lowrank":
        return LowRank(d, min(rank, d), floor)
    raise ConfigError(f"factor is {name!r}; choose one of {', '.join(FACTORS)}")
