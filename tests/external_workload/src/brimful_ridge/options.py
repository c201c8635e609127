"""The options of `brimful ridge fit`, declared once: for Python, the command line, and whatever comes later."""

from dataclasses import dataclass

from brimful.workloads import DeviceOptions, OutOptions, SeedOptions, option


@dataclass(frozen=True, kw_only=True)
class FitConfig(SeedOptions, DeviceOptions, OutOptions):
    """Options of `ridge fit`."""

    count: int = option(1000, help="how many regressions", ge=1, aliases=("n_tasks",))
