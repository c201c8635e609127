"""The options of training, declared once: for `gpcm.train`, for the command line, and for what is stored."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.declare.config import option
from .data.long_table import MISSING, TIES, Columns
from .evaluation.metrics import PREDICTIONS
from .model.deep_gpcm import Config
from .model.embedding import EMBEDDINGS
from .model.heads import ALPHA_OF, ALPHAS, BETAS
from .model.losses import LOSSES

MODELS = ("parallel", "baseline")
MONITORS = {"valid_loss": "min", "qwk": "max", "accuracy": "max", "auc": "max"}


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to train. The defaults are those of the quality table in docs/gpcm.md."""

    model: str = option("parallel", help="the same model, all steps at once or step by step (slow)", choices=MODELS)
    use_parallel: bool = option(False, help="the same as --model parallel, whatever --model says")
    epochs: int = option(30, help="times to go through the training students", ge=1)
    batch_size: int = option(64, help="students of a batch", ge=1)
    gradient_accumulation_steps: int = option(1, help="batches whose gradients make one step of the optimizer", ge=1)
    num_workers: int = option(0, help="threads that prepare batches, where they do not lie on the device", ge=0)
    n_folds: int = option(0, help="folds of cross-validation; 0 or 1 for a single split", ge=0)
    jobs: int | None = option(None, help="folds trained at the same time; as many as fit unless said", ge=1)
    valid_fraction: float = option(0.1, help="share of the training students that choose the epoch", gt=0, lt=0.9)
    test_fraction: float = option(0.2, help="share held out where the data has no test file", gt=0, lt=0.9)
    pieces: int = option(200, help="sequences are cut into pieces of so many steps; 0 for not at all", ge=0)
    loss: str = option(
        "cross_entropy", help="combined is half focal and half ordinal, as in deep-gpcm", choices=tuple(LOSSES)
    )
    gamma: float = option(2.0, help="of the focal loss", ge=0)
    predict_by: str = option("argmax", help="category from probabilities: argmax or rounded mean", choices=PREDICTIONS)
    monitor: str = option("valid_loss", help="what the epoch is chosen by", choices=tuple(MONITORS))
    patience: int | None = option(None, help="epochs without a better one after which to stop", ge=1)
    optimizer: str = option("adamw", help="optimizer", choices=("adamw", "adam"))
    lr: float = option(5e-3, help="learning rate", gt=0)
    weight_decay: float = option(0.1, help="weight decay", ge=0)
    schedule: str = option(
        "cosine", help="of the learning rate", choices=("constant", "cosine", "one_cycle", "plateau")
    )
    warmup: float = option(0.05, help="steps, or share of all steps, over which the rate grows", ge=0)
    clip: float = option(1.0, help="largest norm of a gradient", gt=0)
    average: float = option(0.2, help="weights are averaged over about this share of all steps; 0 for none", ge=0, le=1)
    precision: str = option(
        "float32",
        help="number format; less is no faster for a model this small",
        choices=("auto", "float32", "bf16", "fp16"),
    )
    slots: int = option(50, help="slots of the memory", ge=1)
    key_size: int = option(64, help="size of a question's key", ge=1)
    value_size: int = option(128, help="size of a slot's value", ge=1)
    hidden: int = option(50, help="size of the hidden state", ge=1)
    dropout: float = option(0.05, help="share of hidden features dropped in training", ge=0, lt=1)
    unknown: float = option(0.005, help="share of training steps whose question is made unknown", ge=0, lt=1)
    embedding: str = option("linear_decay", help="of responses", choices=EMBEDDINGS)
    alpha: str = option("exp", help="how discrimination is made positive", choices=ALPHAS)
    alpha_of: str = option("both", help="whether discrimination depends on the student too", choices=ALPHA_OF)
    beta: str = option("monotone", help="thresholds ascending, or free", choices=BETAS)
    theta_scale: float = option(1.0, help="factor of ability", gt=0)
    int8: bool = option(False, help="keep the model with 8-bit weights too, and say what they cost")
    categories: int | None = option(None, help="number of categories; seen from the data unless said", ge=2)
    scores: bool = option(False, help="responses are scores from 0 to 1; seen from the data unless said")
    ties: str = option("error", help="two answers of one student at one time", choices=TIES)
    missing: str = option("error", help="rows of a table in which something is missing", choices=MISSING)
    student: str | None = option(None, help="column of a table; found by its usual names unless said")
    order: str | None = option(None, help="column of the time or place of an answer")
    question: str | None = option(None, help="column of the question")
    response: str | None = option(None, help="column of the response")

    @property
    def parallel(self) -> bool:
        return self.use_parallel or self.model == "parallel"

    def columns(self) -> Columns:
        return Columns(self.student, self.order, self.question, self.response)

    def config(self, questions: int, categories: int) -> Config:
        """The model's."""
        names = ("slots", "key_size", "value_size", "hidden", "dropout", "unknown", "embedding", "alpha", "alpha_of")
        return Config(
            questions=questions,
            categories=categories,
            beta=self.beta,
            theta_scale=self.theta_scale,
            **{name: getattr(self, name) for name in names},
        )


@dataclass(frozen=True, slots=True)
class Run:
    """How, where and with what a model is trained; see `train`."""

    options: Options
    out: Path | None = None
    budget: Any = None
    device: Any = "auto"
    seed: int = 0
    progress: Any = False
