"""The options of `locate`'s commands and Python functions, declared once."""

from dataclasses import dataclass
from pathlib import Path

from ..core.declare.config import SeedOptions, option, options_of
from .physics.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class GenerateConfig(Scenario, SeedOptions):
    """The options of `locate generate`."""

    samples: int = option(10_000, help="recordings to generate", ge=1, aliases=("count", "n"))
    name: str | None = option(None, help="what to call the dataset; by default the file's name")
    out: Path = option(help="a .parquet file for the recordings")

    def scenario(self) -> Scenario:
        return Scenario(**options_of(self, Scenario))
