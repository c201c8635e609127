"""The options of `locate`'s commands and Python functions, declared once.

Names and defaults of training are those of the seed's config; `brimful.train`'s own names are accepted too.
"""

from dataclasses import dataclass
from pathlib import Path

from ..core.declare.config import TABLE, DeviceOptions, OutOptions, SeedOptions, TrainedModelOptions, option, options_of
from ..engine.train.config import ScheduleLike, TrainOptions
from .model.networks import NetworkConfig
from .physics.scenario import Scenario

ACCELERATORS = ("auto", "cpu", "gpu", "cuda")


@dataclass(frozen=True, kw_only=True)
class DatabaseOptions:
    """For commands that read or write datasets in PostgreSQL."""

    url: str | None = option(
        None, help="of the database, postgresql://user:password@host/name; else the embedded one", local=True
    )


@dataclass(frozen=True, kw_only=True)
class GenerateConfig(Scenario, SeedOptions, DatabaseOptions):
    """The options of `locate generate`."""

    samples: int = option(10_000, help="recordings to generate", ge=1, aliases=("count", "n"))
    name: str | None = option(
        None, help="what to call the dataset, which is written to the database unless out names a file"
    )
    out: Path | None = option(None, help="a .parquet file for the recordings, instead of the database")

    def scenario(self) -> Scenario:
        return Scenario(**options_of(self, Scenario))


@dataclass(frozen=True, kw_only=True)
class ImportConfig(DatabaseOptions):
    """The options of `locate import`."""

    file: Path = option(
        help="recordings: a long table (CSV, Parquet), or a file of `locate generate`", positional=True, reads=TABLE
    )
    name: str | None = option(None, help="what to call the dataset; by default the file's name")


@dataclass(frozen=True, kw_only=True)
class DatasetOptions(DatabaseOptions):
    """Which recordings, and which of them."""

    dataset_ids: str = option(
        help="datasets, separated by commas: names or numbers in the database, files of `locate generate`, or of your "
        "own recordings (CSV, Parquet)",
        aliases=("dataset", "data"),
        files=True,
        reads=TABLE,
        unnamed=True,
    )
    min_snr_db: float = option(10.0, help="recordings whose mean signal-to-noise ratio is lower are left out")
    max_gdop: float = option(5.0, help="recordings with a greater dilution of precision are left out", gt=0)

    @property
    def datasets(self) -> list[str]:
        return [name.strip() for name in self.dataset_ids.split(",") if name.strip()]


@dataclass(frozen=True, kw_only=True)
class TrainConfig(DatasetOptions, NetworkConfig, TrainOptions, SeedOptions, DeviceOptions, OutOptions):
    """The options of `locate train` and `locate.train`."""

    epochs: int = 100
    batch_size: int = 128
    lr: float = option(1e-3, help="learning rate", gt=0, aliases=("learning_rate",))
    weight_decay: float | None = 1e-4
    grad_clip: float | None = option(1.0, help="largest norm of the gradient", gt=0, aliases=("clip", "max_grad_norm"))
    schedule: ScheduleLike = option(
        "cosine",
        help="schedule of the learning rate",
        choices=("constant", "cosine", "one_cycle", "plateau"),
        aliases=("lr_scheduler",),
    )
    warmup_epochs: float = option(5.0, help="epochs over which the rate rises, half of all at most", ge=0)
    patience: int | None = option(
        20, help="epochs without improvement after which training stops early", ge=1, aliases=("early_stop_patience",)
    )
    min_delta: float = option(
        1e-3, help="least improvement that patience counts as one", ge=0, aliases=("early_stop_delta",)
    )
    precision: str = "float32"  # less is no faster for a model this small
    validation_split: float = option(0.2, help="share of the recordings that choose the epoch", gt=0, lt=0.9)
    test_split: float = option(0.1, help="share of the recordings that the metrics are of", gt=0, lt=0.9)
    calibrate: bool = option(True, help="scale covariances so that the ellipse holds 68% of the validation recordings")
    preload_to_gpu: bool = option(True, help="all samples on the device, where they fit; otherwise copied ahead")
    num_workers: int = option(0, help="threads that prepare batches which are not on the device", ge=0)
    device: str = option("auto", help="auto, cpu, cuda, cuda:1")
    accelerator: str = option("auto", help="kind of device; device names a single one", choices=ACCELERATORS)
    graph: bool = option(True, help="on CUDA, replay whole steps as graphs")

    @property
    def where(self) -> str:
        """The device: what `device` names, or the accelerator where it names none."""
        if self.device != "auto" or self.accelerator == "auto":
            return self.device
        return "cpu" if self.accelerator == "cpu" else "cuda"

    def network_config(self) -> NetworkConfig:
        return NetworkConfig(**options_of(self, NetworkConfig))


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(TrainedModelOptions, DatasetOptions, SeedOptions, DeviceOptions):
    """The options of `locate evaluate`."""

    dataset_ids: str = option(
        "",
        help="recordings that training did not see; by default those that were held out",
        aliases=("dataset", "data"),
        files=True,
        reads=TABLE,
    )
    samples: int = option(2_000, help="recordings to evaluate on, at most", ge=1)
    device: str = option("auto", help="auto, cpu, cuda, cuda:1")
    other_receivers: bool = option(False, help="evaluate even where the model was trained with other receivers")
    out: Path | None = option(None, help="folder of the report; by default none is written", job="report")


@dataclass(frozen=True, kw_only=True)
class PredictConfig(TrainedModelOptions):
    """The options of `locate predict`."""

    data: Path = option(help="recordings: a file of `locate generate`, or a long table (CSV, Parquet)", reads=TABLE)
    other_receivers: bool = option(False, help="predict even where the model was trained with other receivers")
    device: str = option("auto", help="auto, cpu, cuda, cuda:1")
    out: Path = option(help="a .parquet or .csv file for the predictions", job="predictions.parquet")
