"""The options of `wpo`'s commands and Python functions, declared once.

The defaults are those of the quality table in docs/wpo.md.
"""

from dataclasses import dataclass
from pathlib import Path

from ..core.declare.config import TABLE, DeviceOptions, OutOptions, SeedOptions, TrainedModelOptions, option
from ..engine.train.config import ScheduleLike, TrainOptions

FACTORS = ("triangle", "lowrank")
STRATEGIES = ("auto", "single", "single_gpu", "chunked", "gradient_accumulation", "model_parallel")
MONITORS = {"valid_loss": "min", "log_likelihood": "max"}


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """The options of `wpo.dataset`."""

    data: str = option(
        help="8gaussians, 2spirals, checkerboard, swissroll, pinwheel, circles, moons, rings, swissroll6d, digits, "
        "cifar10, or a .npy, .parquet or .csv file of rows",
        files=True,
        reads=TABLE,
        unnamed=True,
    )
    data_dir: Path = option(Path("data"), help="folder that CIFAR-10 is in", local=True)
    centers: int | None = option(
        None,
        help="number of centers; by default 1000, or a third of the rows where that is less",
        ge=1,
        aliases=("train_kernel_size",),
    )
    samples: int | None = option(None, help="training rows to sample from a toy distribution; by default 20,000", ge=2)
    held_out: float = option(0.1, help="fraction of the rows that is held out", gt=0, lt=1)


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The options of `wpo.ScoreModel`."""

    factor: str = option("triangle", help="full precisions, or diagonal plus low rank", choices=FACTORS)
    rank: int = option(16, help="columns of the low-rank part", ge=1)
    hidden: int = option(64, help="features of a hidden layer", ge=1)
    depth: int = option(5, help="hidden layers", ge=1)
    stability: float = option(
        1.0,
        help="lower bound of a factor's diagonal, times the standard deviation of the centers: 1 lets a component get "
        "about as wide as the data, a larger one less",
        gt=0,
    )
    beta: float = option(1.0, help="noise at time t has the variance beta^2 t", gt=0)


@dataclass(frozen=True, kw_only=True)
class ScoreTrainOptions(TrainOptions):
    """The options of `wpo.train`: those of `brimful.train`, some with other defaults, and its own."""

    steps: int | None = option(3000, help="steps of the optimizer", ge=1, aliases=("niters",))
    batch_size: int = 256
    lr: float = 3e-3
    weight_decay: float | None = 1e-4
    schedule: ScheduleLike = "cosine"
    warmup: float = 0.05
    grad_clip: float | None = 100.0
    ema_span: float = 0.1
    precision: str = option(
        "auto", help="number format of model and data; auto for the model's own", choices=("auto", "float32", "float64")
    )
    strategy: str = option(
        "auto", help="how the centers are split; all strategies give the same gradient", choices=STRATEGIES
    )
    chunk_size: int | None = option(None, help="centers at a time; by default as many as fit", ge=1)
    ranks: int | None = option(None, help="processes that train together; by default one per device", ge=1)
    objective: str = option(
        "likelihood", help="maximum likelihood, or implicit score matching", choices=("likelihood", "score")
    )
    monitor: str = option("log_likelihood", help="what decides the best epoch", choices=tuple(MONITORS))
    best: bool = option(True, help="keep the weights of the best epoch, not of the last")
    calibrate: bool = option(
        True,
        help="before training, and again after it, choose the width of components and how far centers move, by "
        "held-out likelihood",
    )
    add_training_points: bool = option(
        False, help="with that, add the training rows as centers; the model then stores them all"
    )


@dataclass(frozen=True, kw_only=True)
class TrainConfig(DataOptions, ModelOptions, ScoreTrainOptions, SeedOptions, DeviceOptions, OutOptions):
    """The options of `wpo train`."""

    device: str = option(
        "auto", help="auto, cpu, cuda, cuda:1, or several as 0,1 to train together", aliases=("devices",)
    )


@dataclass(frozen=True, kw_only=True)
class SampleConfig(TrainedModelOptions, SeedOptions):
    """The options of `wpo sample`."""

    n: int = option(1000, help="samples", ge=0)
    t: float = option(0.0, help="time, at which the noise has the variance beta^2 t", ge=0)
    device: str = option("auto", help="auto, cpu, cuda, cuda:1")
    out: Path | None = option(None, help="a .npy or .csv file; by default samples.npy in the folder", job="samples.npy")
