"""One model: from recordings to a result.

Recordings are dealt at random to training, validation and test. Scaling and weights come from the training recordings,
the epoch and the calibration from the validation recordings, and the metrics from the test recordings alone.
"""

import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...core.base.errors import InputError
from ...core.declare.config import options_of, to_dict
from ...core.memory import devices
from ...core.runs.progress import sink_for
from ...data.loading import loader
from ...data.subset import split
from ...engine.train import train as train_model
from ...engine.train.config import ExecutionOptions
from .. import store
from ..data.features import Scaling
from ..data.receiver_set import ReceiverSet
from ..datasets import Selected
from ..device_use import DeviceUseRecorder
from ..evaluation.metrics import fit_scale, score
from ..evaluation.predict import NetworkPrediction, over
from ..model.gaussian import PlaneGaussian
from ..model.networks import LocationNetwork, loss
from ..options import TrainConfig
from ..result import HeldOut, LocateResult

NAME = "locate train"
_VALID_BATCH = 8192  # samples at a time where no gradient is computed
_LEAST = 10  # recordings
_SEEN = ("features", "mask", "target")


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSetup:
    """The inputs of `brimful.train`.

    Attributes:
        train, valid, test: samples, as `Scaling.samples` gives them.
        scaling: of all three, by the training recordings.
        receiver_set: the sites of the training recordings.
        model: with its initial weights.
        settings: the options of `brimful.train` that decide the result.
        extra: those that do not.
    """

    train: dict[str, Tensor]
    valid: dict[str, Tensor]
    test: dict[str, Tensor]
    scaling: Scaling
    receiver_set: ReceiverSet
    model: LocationNetwork
    settings: dict[str, Any]
    extra: dict[str, Any]

    def inputs(self) -> dict[str, Any]:
        """The keyword arguments of `brimful.train` and `plan_train`, beside model, loss and data."""
        return {"valid": _valid_loader(self.valid, self.extra), **self.settings, **self.extra}


def set_up(selected: Selected, config: TrainConfig) -> TrainingSetup:
    """Splits the recordings and makes the model."""
    count = len(selected.recordings)
    shares = (1 - config.validation_split - config.test_split, config.validation_split, config.test_split)
    if count < _LEAST or shares[0] <= 0:
        raise InputError(
            f"{selected.name}: {count} recordings, of which {shares[0]:.0%} are left to train on; give at least "
            f"{_LEAST}, and a validation_split and test_split that leave some"
        )
    train, valid, test = (
        selected.recordings.select(torch.from_numpy(part)) for part in split(count, shares, config.seed)
    )
    scaling = Scaling.of(train)
    with torch.random.fork_rng([]):
        torch.manual_seed(config.seed)
        model = LocationNetwork(config.network_config())
    batch_size = min(config.batch_size, len(train))
    steps = config.epochs * -(-len(train) // batch_size)
    warmup = config.warmup or min(config.warmup_epochs / config.epochs, 0.5) * steps
    settings = config.train_options() | {
        "batch_size": batch_size,
        "warmup": float(round(warmup)) if warmup >= 1 else 0.0,
        "preload_to_gpu": None if config.preload_to_gpu else False,
        "loader": {"num_workers": config.num_workers},
        "seed": config.seed,
        "name": NAME,
    }
    device = devices.resolve(config.where)
    extra = {"device": device, "budget": config.budget, "graph": config.graph and device.type == "cuda"}
    return TrainingSetup(
        train=scaling.samples(train),
        valid=scaling.samples(valid),
        test=scaling.samples(test),
        scaling=scaling,
        receiver_set=ReceiverSet.of(train),
        model=model,
        settings=settings,
        extra=extra,
    )


def training_data(setup: TrainingSetup) -> dict[str, Tensor]:
    """What a step needs of the training samples."""
    return {name: setup.train[name] for name in _SEEN}


def _valid_loader(samples: dict[str, Tensor], extra: dict[str, Any]) -> Any:
    """Batches that are larger than those of training: without gradients there is room for them."""
    size = min(_VALID_BATCH, len(samples["mask"]))
    rows = {name: samples[name] for name in _SEEN}
    return loader(rows, batch_size=size, shuffle=False, device=extra["device"], budget=extra["budget"])


class ValidationRMSE:
    """The root mean square distance on the validation samples, in metres."""

    def __init__(self, position_m: float) -> None:
        self.position_m = position_m

    def __call__(self, model: nn.Module, batches: Any) -> dict[str, float]:
        total, count = torch.zeros((), dtype=torch.float64), 0
        for batch in batches.epoch(0):
            mean = PlaneGaussian.of(model(batch["features"], batch["mask"])).mean
            total = total.to(mean.device) + (mean - batch["target"]).double().square().sum()
            count += len(mean)
        return {"valid_rmse_m": self.position_m * float(total / count) ** 0.5}


def fit(
    selected: Selected, config: TrainConfig, progress: Any = False, cancel: threading.Event | None = None
) -> LocateResult:
    """Trains one model and measures it on recordings that it never saw. With `out` it is also stored there."""
    setup = set_up(selected, config)
    recorder = DeviceUseRecorder(sink_for(progress))
    trained = train_model(
        setup.model,
        loss,
        training_data(setup),
        metrics=ValidationRMSE(setup.scaling.position_m),
        out=config.out,
        progress=recorder,
        cancel=cancel,
        **setup.inputs(),
    )
    position_m, where = setup.scaling.position_m, {"device": setup.extra["device"], "budget": config.budget}
    scale = 1.0
    if config.calibrate:
        predicted = over(NetworkPrediction(setup.model, position_m, 1.0), setup.valid, **where)
        scale = fit_scale(predicted["position"] - position_m * setup.valid["target"], predicted["covariance"])
    predicted = over(NetworkPrediction(setup.model, position_m, scale), setup.test, **where)
    held_out = HeldOut.of(setup.test, predicted, setup.scaling)
    result = LocateResult(
        model=setup.model.cpu(),
        scaling=setup.scaling,
        scenario=selected.scenario,
        receiver_set=setup.receiver_set,
        scale=scale,
        scores=score(held_out.error, held_out.covariance),
        held_out=held_out.first(store.HELD_OUT),
        history=trained.history,
        best_epoch=int((trained.best or trained.history[-1])["epoch"]) - 1,
        settings=settings_of(config) | {"dataset_ids": selected.name, "dataset_seeds": list(selected.seeds)},
        device_use=recorder.result(trained.history),
        left_out=selected.left_out,
        plan=trained.plan,
        observed=trained.observed,
        seconds=trained.seconds,
        compiling=trained.compiling,
    )
    if trained.out is not None:  # on the first rank
        store.save(result, trained.out)
    return result


def settings_of(config: TrainConfig) -> dict[str, Any]:
    """What decides the result, in JSON values; the URL of a database may hold a password, and is not among them."""
    left_out = {"out", "url", "device", "budget", "accelerator", "num_workers", *options_of(config, ExecutionOptions)}
    return {name: value for name, value in to_dict(config).items() if name not in left_out}
