"""One model: from students to a trained model.

Students are held out whole: some to test on, some of the rest to choose the epoch by. Nothing of either is seen in
training: vocabulary, class weights and weights come from the training students alone.
"""

import functools
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...data.ragged import Ragged
from ...engine.train import train as train_model
from ...engine.train.step.loss import Weighted
from ..data.files import Folder
from ..data.splits import split
from ..data.students import PADDING, Students
from ..evaluation.inference import predict_next
from ..evaluation.item_parameters import abilities, items
from ..evaluation.metrics import Scores, score
from ..evaluation.parameter_recovery import recovery
from ..model import dropout
from ..model.deep_gpcm import DeepGPCM
from ..model.losses import Loss, class_weights
from ..model.stepwise import baseline
from ..options import MONITORS, Options, Run
from ..outcome import Held
from ..trained import Trained, rounded, vocabulary

WORK = "gpcm train"
_INFERENCE = 16_384  # steps at once when validation students are scored


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What `brimful.train` is given.

    Attributes:
        train, valid, test: the students, cut into pieces; what training never asks is made unknown.
        model: with its first weights.
        loss: of the model and a batch.
        settings: the options of `brimful.train` that decide the result.
    """

    train: Students
    valid: Students
    test: Students
    model: DeepGPCM
    loss: functools.partial
    settings: dict[str, Any]


def prepare(folder: Folder, run: Run) -> Prepared:
    """Splits the students and makes the model."""
    options = run.options
    train, valid, test = _parts(folder, options, run.seed)
    with torch.random.fork_rng([]):
        torch.manual_seed(run.seed)
        model = DeepGPCM(options.config(len(train.questions), train.categories))
    size = min(options.batch_size * options.gradient_accumulation_steps, len(train))
    steps = options.epochs * -(-len(train) // size)
    weights = class_weights(torch.from_numpy(train.counts))
    loss = functools.partial(batch_loss, loss=Loss(options.loss, weights, options.gamma), parallel=options.parallel)
    settings = {
        "epochs": options.epochs,
        "batch_size": size,
        "accumulation_steps": options.gradient_accumulation_steps if options.gradient_accumulation_steps > 1 else None,
        "monitor": options.monitor,
        "mode": MONITORS[options.monitor],
        "patience": options.patience,
        "optimizer": options.optimizer,
        "lr": options.lr,
        "weight_decay": options.weight_decay,
        "schedule": options.schedule,
        "warmup": options.warmup,
        "clip": options.clip,
        "ema": decay(options.average, steps),
        "precision": options.precision,
        "loader": {"transform": add_keys, "pad": PADDING, "num_workers": options.num_workers},
        "seed": run.seed,
        "name": WORK,
    }
    return Prepared(train, valid, test, model, loss, settings)


def single(folder: Folder, run: Run) -> Trained:
    """One model: trained on the training students, tested on the others. With a directory it is also stored there."""
    started = time.monotonic()
    options, truth, given = run.options, folder.truth, prepare(folder, run)
    result = train_model(
        given.model,
        given.loss,
        tensors(given.train),
        valid=tensors(given.valid),
        metrics=Validation(given.valid, options.predict_by),
        budget=run.budget,
        device=run.device,
        out=run.out,
        progress=run.progress,
        **given.settings,
    )
    model, test = given.model.cpu(), given.test
    held = Held.of(test, predict_next(model, test))
    scores = score(held.probability_TK, test.response, options.predict_by)
    found = items(model, given.train)
    best = result.best or result.history[-1]
    trained = Trained(
        model=model,
        train=vocabulary(given.train),
        items=found,
        scores=scores,
        held=held,
        history=result.history,
        best=int(best["epoch"]) - 1,
        settings={"dataset": folder.name, "seed": run.seed, **asdict(options)},
        recovery=None if truth is None else recovery(found, abilities(model, test), test, truth),
        truth=truth,
        rounded=rounded(model, held, scores, options.predict_by) if options.int8 else None,
        predict_by=options.predict_by,
        seconds=time.monotonic() - started,
    )
    if run.out is not None:
        trained.save(run.out)
    return trained


def _parts(folder: Folder, options: Options, seed: int) -> tuple[Students, Students, Students]:
    train, valid, test = folder.train, folder.valid, folder.test
    assert test is not None
    if valid is None:
        share = max(options.valid_fraction, 1 / len(np.unique(train.ids)))  # at least one student
        train, valid = split(train, (1 - share, share), seed)
    parts = [each.pieces(options.pieces) if options.pieces else each for each in (train, valid, test)]
    return parts[0], parts[1].masked(parts[0]), parts[2].masked(parts[0])


def decay(share: float, steps: int) -> float | None:
    """The decay of a moving average that looks back over a share of all steps; none where that is no step."""
    back = share * steps
    return 1 - 1 / back if back > 1 else None


def tensors(students: Students) -> dict[str, Any]:
    """Students as `brimful.data` takes them."""
    offsets = torch.from_numpy(students.offsets)
    return {
        "question": Ragged(torch.from_numpy(students.question), offsets),
        "response": Ragged(torch.from_numpy(students.response), offsets),
        "student": torch.arange(len(students)),
    }


def add_keys(batch: Mapping[str, Any], generator: torch.Generator) -> dict[str, Any]:
    """Gives each student of a batch the key that its dropout depends on, so that the cut into micro-batches does not
    change it; the generator's seed is that of the epoch and the batch."""
    return {**batch, "key": dropout.keys(generator.initial_seed(), 0, batch["student"])}


def batch_loss(model: nn.Module, batch: Mapping[str, Any], *, loss: Loss, parallel: bool) -> Weighted:
    """The loss of a batch, by the one way of computing the model or the other."""
    question, response = batch["question"], batch["response"]
    steps: tuple[Tensor, ...] = (question.values.long(), response.values.long(), question.lengths)
    key = batch.get("key")
    output = model(*steps, key) if parallel else baseline(model, *steps, key)  # pyright: ignore[reportArgumentType]
    return loss(output.logits_BSK, steps[1], steps[2])


@dataclass(frozen=True, slots=True, eq=False)
class Validation:
    """The scores of a model on the validation students, by name."""

    students: Students
    predict_by: str

    def __call__(self, model: Any, batches: Any) -> dict[str, float]:
        found: Scores = score(self._probabilities(model), self.students.response, self.predict_by)
        return {name: value for name, value in asdict(found).items() if name != "count" and not math.isnan(value)}

    def _probabilities(self, model: Any) -> np.ndarray:
        """In batches that fit: a budget that training keeps to by cutting is not to be broken here."""
        steps, least = _INFERENCE, int(self.students.lengths.max(initial=1))
        while True:
            try:
                return predict_next(model, self.students, steps=steps).probability_TK
            except torch.OutOfMemoryError:
                if steps <= least:
                    raise
            steps //= 4
