"""The options of the commands, declared once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..core.declare.config import ClusterOptions, DeviceOptions, OutOptions, SeedOptions, option
from .data.read import SPLITS
from .execution.sequential import ON_ERROR
from .run import EXECUTORS


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """For commands that read programs."""

    file: Path = option(help="file of programs, or folder of such files", positional=True, metavar="FILE")
    vocabulary: str = option(
        "auto", help="what the names in the file mean; auto decides by its imports", choices=("auto", "arc-dsl", "batt")
    )


@dataclass(frozen=True, kw_only=True)
class CheckConfig(FileOptions):
    """The options of `programs check`."""


@dataclass(frozen=True, kw_only=True)
class MeasureOptions(SeedOptions):
    """Samples that operations are measured on, and where."""

    data: str = option(
        "arcagi", help="arcagi, arcagi2, a folder of JSON tasks, or a JSON file", metavar="NAME|DIR", files=True
    )
    split: str = option("training", help="which tasks of the data", choices=SPLITS)
    device: str = option("auto", help="auto, cpu or cuda")


@dataclass(frozen=True, kw_only=True)
class CompileConfig(FileOptions, MeasureOptions):
    """The options of `programs compile`."""

    samples: int = option(0, help="random samples to measure the time of each operation on; 0 measures none", ge=0)
    out: Path = option(Path(), help="folder that the module batt.py and the table batt.csv are written to")


@dataclass(frozen=True, kw_only=True)
class RunConfig(FileOptions, DeviceOptions, ClusterOptions, OutOptions):
    """The options of `programs run`."""

    data: str = option(
        "arcagi", help="arcagi, arcagi2, a folder of JSON tasks, or a JSON file", metavar="NAME|DIR", files=True
    )
    split: str = option("training", help="which tasks of the data", choices=SPLITS)
    executor: str = option(
        "auto",
        help="sequential: one sample after the other; batched: every operation once over many samples; auto measures",
        choices=EXECUTORS,
    )
    workers: int | None = option(None, help="processes on a CPU; by default as many as pay", ge=1)
    batch_size: int | None = option(None, help="samples of a batch; by default as measured", ge=1)
    on_error: str = option(
        "default",
        help="an operation that fails: default, go on with its safe default; propagate, the program fails",
        choices=ON_ERROR,
    )
    verify: int = option(0, help="run so many random samples again in every other way, and compare all", ge=0)
    pair_by_name: bool = option(False, help="run a program only on the task whose id its name carries")


@dataclass(frozen=True, kw_only=True)
class ExplainConfig(FileOptions, MeasureOptions):
    """The options of `programs explain`."""

    samples: int = option(20, help="random samples to measure it on; 0 only says how operations run", ge=0)


@dataclass(frozen=True, kw_only=True)
class ProgramsReportConfig:
    """The options of `programs report`."""

    directory: Path = option(help="folder of a run", positional=True, metavar="DIR")
    out: Path | None = option(None, help="folder of the report; by default that of the run")


@dataclass(frozen=True, kw_only=True)
class GenerateConfig(SeedOptions):
    """The options of `programs generate`."""

    file: Path | None = option(None, help="file of solvers to merge; by default our own", positional=True)
    operations: int = option(1600, help="operations of the batt, after merging", ge=1)
    mutation_rate: float = option(0.05, help="share of steps that are changed, in copies beyond the first", ge=0, le=1)
    out: Path = option(Path("batt.py"), help="file that the batt is written to")
