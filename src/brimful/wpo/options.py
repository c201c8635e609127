"""The options of `wpo train` on the command line, declared once."""

from dataclasses import dataclass
from pathlib import Path

from ..core.declare.config import option
from .model.factor_types import FACTORS

STRATEGIES = ("auto", "single_gpu", "model_parallel", "chunked", "gradient_accumulation")
MONITORS = {"valid_loss": "min", "log_likelihood": "max"}


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to train. The defaults are those of the quality table in docs/wpo.md."""

    data: str = option(
        help="8gaussians, 2spirals, checkerboard, swissroll, pinwheel, circles, moons, rings, swissroll6d, digits, "
        "cifar10, or a .npy file of rows"
    )
    data_dir: Path = option(Path("data"), help="folder that CIFAR-10 lies in")
    train_kernel_size: int | None = option(
        None, help="centers; 1000, or a third of the rows where that is less, unless said", ge=1
    )
    samples: int | None = option(
        None, help="rows to draw for training, of data that is drawn; 20,000 unless said", ge=2
    )
    held_out: float = option(0.1, help="share of the rows that is held out", gt=0, lt=1)
    batch_size: int = option(256, help="samples of a batch, over all ranks", ge=1)
    niters: int = option(3000, help="steps of the optimizer", ge=1)
    strategy: str = option("auto", help="how the centers are gone over; all give the same numbers", choices=STRATEGIES)
    chunk_size: int | None = option(None, help="centers at a time; as many as fit unless said", ge=1)
    accumulation_steps: int | None = option(None, help="micro-batches of a batch; as few as fit unless said", ge=1)
    devices: str | None = option(None, help="GPUs that train together, as 0,1,2,3")
    ranks: int | None = option(None, help="processes that train together on a CPU", ge=1)
    factor: str = option("triangle", help="full precisions, or diagonal and low rank", choices=FACTORS)
    rank: int = option(16, help="columns of the low-rank part", ge=1)
    hidden: int = option(64, help="features of a hidden layer", ge=1)
    depth: int = option(5, help="hidden layers", ge=1)
    stability: float = option(1.0, help="least entry of a factor's diagonal, times the spread of the centers", gt=0)
    beta: float = option(1.0, help="noise at time t has the variance beta^2 t", gt=0)
    objective: str = option(
        "score", help="implicit score matching, or the samples' likelihood", choices=("score", "likelihood")
    )
    optimizer: str = option("adamw", help="optimizer", choices=("adamw", "adam"))
    lr: float = option(3e-3, help="learning rate", gt=0)
    weight_decay: float = option(1e-4, help="weight decay", ge=0)
    schedule: str = option(
        "cosine", help="of the learning rate", choices=("constant", "cosine", "one_cycle", "plateau")
    )
    warmup: float = option(0.05, help="steps, or share of all steps, over which the rate grows", ge=0)
    clip: float = option(100.0, help="largest norm of a gradient, in the model's units", gt=0)
    average: float = option(0.1, help="weights are averaged over about this share of all steps; 0 for none", ge=0, le=1)
    monitor: str = option("log_likelihood", help="what the epoch is chosen by", choices=tuple(MONITORS))
    settled: bool = option(True, help="after training, choose the width of components, and how centers move together")
    grown: bool = option(False, help="make centers of the training rows too, after training; the model keeps them all")
    patience: int | None = option(None, help="epochs without a better one after which to stop", ge=1)
    double: bool = option(False, help="compute in float64")
