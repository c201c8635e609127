"""The options of `gpcm`'s commands and Python functions, declared once.

The defaults are those of the quality table in docs/gpcm.md.
"""

from dataclasses import dataclass
from pathlib import Path

from ..core.declare.config import TABLE, DeviceOptions, OutOptions, SeedOptions, TrainedModelOptions, option, options_of
from ..engine.train.config import ScheduleLike, TrainOptions
from .data.long_table import TableOptions
from .evaluation.metrics import PREDICTIONS
from .model.deep_gpcm import DeepGPCMConfig, ModelOptions
from .model.losses import LOSSES

MODELS = ("parallel", "baseline")
MONITORS = {"valid_loss": "min", "qwk": "max", "accuracy": "max", "auc": "max"}


@dataclass(frozen=True, kw_only=True)
class TrainConfig(ModelOptions, TableOptions, TrainOptions, SeedOptions, DeviceOptions, OutOptions):
    """The options of `gpcm train` and `gpcm.train`."""

    dataset: str = option(
        help="a folder with train and test files, a file (three lines per student, or a long table), or synthetic data "
        "by name: synthetic_OC, synthetic_PC, 5000_200_4 (students, questions, categories)",
        files=True,
        reads=TABLE,
        unnamed=True,
    )
    model: str = option("parallel", help="the same model, all steps at once or step by step (slow)", choices=MODELS)
    use_parallel: bool = option(False, help="the same as model=parallel, whatever model is")
    epochs: int = 30
    batch_size: int = 64
    accumulation_steps: int = option(
        1, help="batches whose gradients make one optimizer step", ge=1, aliases=("gradient_accumulation_steps",)
    )
    lr: float = 5e-3
    weight_decay: float | None = 0.1
    schedule: ScheduleLike = "cosine"
    warmup: float = 0.05
    grad_clip: float | None = 1.0
    ema_span: float = 0.2
    precision: str = "float32"  # less is no faster for a model this small
    bucket: int = option(
        4, help="batches over which students are sorted by length, so that less is padded; 0 for not at all", ge=0
    )
    ranks: int | None = option(None, help="processes that train together; by default one per device", ge=1)
    num_workers: int = option(0, help="threads that prepare batches which are not on the device", ge=0)
    n_folds: int = option(0, help="folds of cross-validation; 0 or 1 for a single split", ge=0)
    jobs: int | None = option(None, help="folds trained at the same time; by default as many as fit", ge=1)
    valid_fraction: float = option(0.1, help="share of the training students for choosing the epoch", gt=0, lt=0.9)
    test_fraction: float = option(0.2, help="share held out where the data has no test file", gt=0, lt=0.9)
    segment_length: int = option(200, help="steps of the segments that sequences are split into; 0 for whole", ge=0)
    loss: str = option(
        "cross_entropy", help="combined is half focal and half ordinal, as in deep-gpcm", choices=tuple(LOSSES)
    )
    gamma: float = option(2.0, help="of the focal loss", ge=0)
    predict_by: str = option("argmax", help="category from probabilities: argmax or rounded mean", choices=PREDICTIONS)
    monitor: str = option("valid_loss", help="what decides the best epoch", choices=tuple(MONITORS))
    best: bool = option(True, help="keep the weights of the best epoch; else those of the last")
    int8: bool = option(False, help="store the model with 8-bit weights too, and report the loss of kappa")
    categories: int | None = option(None, help="number of categories; by default inferred from the data", ge=2)
    partial_credit: bool = option(False, help="responses are scores from 0 to 1; by default inferred from the data")

    @property
    def parallel(self) -> bool:
        return self.use_parallel or self.model == "parallel"

    def model_config(self, questions: int, categories: int) -> DeepGPCMConfig:
        """The model for a vocabulary."""
        return DeepGPCMConfig(questions=questions, categories=categories, **options_of(self, ModelOptions))


@dataclass(frozen=True, kw_only=True)
class PredictConfig(TrainedModelOptions, TableOptions):
    """The options of `gpcm predict`."""

    data: Path = option(help="students: three lines each, or a long table", reads=TABLE)
    next: str | None = option(None, help="predict the answer to this question after each student's last one")
    device: str = option("auto", help="auto, cpu, cuda, cuda:1")
    out: Path = option(help="a .parquet or .csv file for the predictions", job="predictions.parquet")
