"""One model: from a dataset to a result.

Students are held out whole: some for the test, some of the rest for choosing the epoch. Training sees neither:
vocabulary, class weights and weights come from the training students alone.
"""

import functools
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...core.declare.config import options_of, to_dict
from ...core.memory.oom import retry_smaller
from ...data.ragged import Ragged
from ...engine.train import train as train_model
from ...engine.train.config import ExecutionOptions
from ...engine.train.step.loss import Weighted
from .. import store
from ..data.files import Dataset
from ..data.splits import split
from ..data.students import PADDING, Students
from ..evaluation.inference import predict_next
from ..evaluation.item_parameters import abilities, item_parameters
from ..evaluation.parameter_recovery import measure_recovery
from ..model import dropout
from ..model.deep_gpcm import DeepGPCM
from ..model.losses import Loss, class_weights
from ..model.quantize import quantize
from ..model.stepwise import baseline
from ..options import MONITORS, TrainConfig
from ..result import GPCMResult, metric_values

NAME = "gpcm train"
_INFERENCE = 16_384  # steps of a batch when validation students are scored


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSetup:
    """The inputs of `brimful.train`.

    Attributes:
        train, valid, test: the students, in segments; questions that training never asks are the unknown one.
        model: with its initial weights.
        loss: of the model and a batch.
        settings: the options of `brimful.train` that determine the result.
    """

    train: Students
    valid: Students
    test: Students
    model: DeepGPCM
    loss: functools.partial
    settings: dict[str, Any]


def set_up(dataset: Dataset, config: TrainConfig) -> TrainingSetup:
    """Splits the students and makes the model."""
    train, valid, test = _split(dataset, config)
    with torch.random.fork_rng([]):
        torch.manual_seed(config.seed)
        model = DeepGPCM(config.model_config(len(train.questions), train.categories))
    loss = Loss(config.loss, class_weights(torch.from_numpy(train.counts)), config.gamma)
    bucket = config.bucket if len(np.unique(train.lengths)) > 1 else 0  # of one length, nothing is padded
    settings = config.train_options() | {
        "batch_size": min(config.batch_size * config.accumulation_steps, len(train)),
        "accumulation_steps": config.accumulation_steps if config.accumulation_steps > 1 else None,
        "monitor": config.monitor,
        "mode": MONITORS[config.monitor],
        "best": config.best,
        "loader": {
            "transform": add_dropout_seeds,
            "pad": PADDING,
            "bucket": bucket,
            "balance": bucket > 0,
            "num_workers": config.num_workers,
        },
        "seed": config.seed,
        "name": NAME,
    }
    batch = functools.partial(batch_loss, loss=loss, parallel=config.parallel)
    return TrainingSetup(train, valid, test, model, batch, settings)


def fit(
    dataset: Dataset,
    config: TrainConfig,
    progress: Any = False,
    cancel: threading.Event | None = None,
    resume: bool = True,
) -> GPCMResult:
    """Trains one model on the training students and tests it on the others. With `out` it is also stored there."""
    setup, true_parameters = set_up(dataset, config), dataset.true_parameters
    result = train_model(
        setup.model,
        setup.loss,
        tensors(setup.train),
        valid=tensors(setup.valid),
        metrics=Validation(setup.valid, config.predict_by),
        budget=config.budget,
        device=config.device,
        ranks=config.ranks,
        out=config.out,
        resume=resume,
        progress=progress,
        cancel=cancel,
        **setup.settings,
    )
    model, test = setup.model.cpu(), setup.test
    held_out, items = predict_next(model, test), item_parameters(model, setup.train)
    scores, int8 = held_out.scores(config.predict_by), quantize(model) if config.int8 else None
    trained = GPCMResult(
        model=model,
        vocabulary=setup.train.select(np.zeros(0, np.int64)),
        items=items,
        held_out=held_out,
        scores=scores,
        history=result.history,
        best_epoch=int((result.best or result.history[-1])["epoch"]) - 1,
        settings=settings_of(config) | {"dataset": dataset.name},
        plan=result.plan,
        observed=result.observed,
        seconds=result.seconds,
        compiling=result.compiling,
        recovery=true_parameters and measure_recovery(items, abilities(model, test), test, true_parameters),
        true_parameters=true_parameters,
        int8=int8,
        int8_qwk_loss=int8 and scores.qwk - predict_next(int8, test).scores(config.predict_by).qwk,
    )
    if result.out is not None:  # on the first rank
        store.save(trained, result.out)
    return trained


def settings_of(config: TrainConfig) -> dict[str, Any]:
    """What determines the result, in JSON values."""
    left_out = {"out", "device", "budget", "ranks", *options_of(config, ExecutionOptions)}
    return {name: value for name, value in to_dict(config).items() if name not in left_out}


def _split(dataset: Dataset, config: TrainConfig) -> tuple[Students, Students, Students]:
    train, valid, test = dataset.train, dataset.valid, dataset.test
    assert test is not None
    if valid is None:
        share = max(config.valid_fraction, 1 / len(np.unique(train.ids)))  # at least one student
        train, valid = split(train, (1 - share, share), config.seed)
    train, valid, test = (part.segments(config.segment_length) for part in (train, valid, test))
    return train, valid.mask_unseen(train.question), test.mask_unseen(train.question)


def tensors(students: Students) -> dict[str, Any]:
    """Students as `brimful.data` takes them."""
    offsets = torch.from_numpy(students.offsets)
    return {
        "question": Ragged(torch.from_numpy(students.question), offsets),
        "response": Ragged(torch.from_numpy(students.response), offsets),
        "student": torch.arange(len(students)),
    }


def add_dropout_seeds(batch: Mapping[str, Any], generator: torch.Generator) -> dict[str, Any]:
    """Adds the seed of each student's dropout to a batch, so that the split into micro-batches and over ranks does
    not change it; the generator's seed is that of the epoch and the batch."""
    return {**batch, "dropout_seed": dropout.student_seeds(generator.initial_seed(), 0, batch["student"])}


add_dropout_seeds.per_sample = True  # the same on every rank


def batch_loss(model: nn.Module, batch: Mapping[str, Any], *, loss: Loss, parallel: bool) -> Weighted:
    """The loss of a batch, with all steps at once or step by step."""
    question, response = batch["question"], batch["response"]
    steps: tuple[Tensor, ...] = (question.values.long(), response.values.long(), question.lengths)
    seed = batch.get("dropout_seed")
    output = model(*steps, seed) if parallel else baseline(model, *steps, seed)  # pyright: ignore[reportArgumentType]
    return loss(output.logits_BSK, steps[1], steps[2])


@dataclass(frozen=True, slots=True, eq=False)
class Validation:
    """The metrics of a model on the validation students, by name."""

    students: Students
    predict_by: str

    def __call__(self, model: Any, batches: Any) -> dict[str, float]:
        """The metrics, computed in smaller batches where memory runs out: a budget that training stays inside by
        splitting is not to be exceeded here."""
        steps, least = _INFERENCE, int(self.students.lengths.max(initial=1))

        def shrink() -> bool:
            nonlocal steps
            steps //= 4
            return 4 * steps > least

        predictions = retry_smaller(
            lambda: predict_next(model, self.students, steps=steps),
            shrink,
            model.value_memory.device,
            "one validation student at a time",
            "Use a larger budget, or a smaller segment_length",
        )
        metrics = metric_values(predictions.scores(self.predict_by))
        return {name: value for name, value in metrics.items() if value is not None}
