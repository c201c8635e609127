"""What users of torch bring to `train`: optimizers, schedulers, compiled models, callbacks; and a first rate."""

import functools
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler

import brimful
from brimful import ConfigError, metric_sinks
from brimful.core.base.errors import MissingExtraError
from brimful.core.runs.events import EpochDone, Finished, Started
from brimful.engine.train.learning_rate import from_curve
from brimful.engine.train.optim import optimizers
from brimful.engine.train.optim.schedules import schedule

X = torch.randn(24, 3, generator=torch.Generator().manual_seed(0))
DATA = {"x": X, "y": X @ torch.tensor([1.0, -2.0, 0.5])}
STEPS_PER_EPOCH = 3


def loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return (model(batch["x"]).squeeze(-1) - batch["y"]).square().mean()


def network() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 1)


def fit(model: nn.Module | None = None, **options: Any) -> brimful.TrainResult:
    given = {"epochs": 4, "batch_size": 8, "device": "cpu", "progress": False, "best": False, **options}
    return brimful.train(network() if model is None else model, loss, DATA, **given)


def plain(optimizer: torch.optim.Optimizer, model: nn.Module, scheduler: Any = None, by_step: bool = False) -> Tensor:
    """The same training by a loop as torch's users write it; the weights."""
    order = [batch["index"] for epoch in range(4) for batch in brimful.data.loader(
        {"index": torch.arange(24)}, batch_size=8, seed=0, device="cpu").epoch(epoch)]  # fmt: skip
    for step, index in enumerate(order):
        optimizer.zero_grad()
        loss(model, {name: values[index] for name, values in DATA.items()}).backward()
        optimizer.step()
        if scheduler is not None and (by_step or step % STEPS_PER_EPOCH == STEPS_PER_EPOCH - 1):
            scheduler.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def weights(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("name", optimizers.NAMED)
def test_every_name_is_torchs_optimizer(name: str):
    model = network()
    expected = plain(optimizers.NAMED[name](model.parameters(), lr=0.05), model)  # pyright: ignore[reportCallIssue]
    torch.testing.assert_close(weights(fit(optimizer=name, lr=0.05).model), expected, rtol=1e-4, atol=1e-6)


def test_a_class_gets_the_rate_and_an_instance_has_its_own(tmp_path: Path):
    model = network()
    expected = plain(torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=0.1), model)
    by_class = fit(optimizer=torch.optim.SGD, lr=0.05, weight_decay=0.1)
    torch.testing.assert_close(weights(by_class.model), expected)
    model, own = network(), network()
    expected = plain(torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9), model)
    result = fit(own, optimizer=torch.optim.SGD(own.parameters(), lr=0.02, momentum=0.9), lr=5.0)
    torch.testing.assert_close(weights(result.model), expected)
    with pytest.raises(ConfigError, match="parameters that are not the model's"):
        fit(optimizer=torch.optim.SGD(own.parameters(), lr=0.02))


def test_a_run_with_an_instance_is_resumed_and_known_by_its_settings(tmp_path: Path):
    def run(epochs: int, momentum: float = 0.9, **options: Any) -> brimful.TrainResult:
        model = network()
        own = torch.optim.SGD(model.parameters(), lr=0.02, momentum=momentum)
        return fit(model, optimizer=own, epochs=epochs, **options)

    run(2, out=tmp_path / "run")
    assert torch.equal(weights(run(4, out=tmp_path / "run").model), weights(run(4).model))
    with pytest.raises(brimful.ChangedError, match="optimizer"):
        run(4, momentum=0.5, out=tmp_path / "run")


def test_an_optimizer_is_measured_without_memory():
    parameters = [nn.Parameter(torch.zeros(1000))]
    assert optimizers.state_bytes(parameters, "sgd") == 0
    assert optimizers.state_bytes(parameters, torch.optim.SGD(parameters, lr=1, momentum=0.9)) == 4000
    assert optimizers.state_bytes(parameters, "adamw") == optimizers.state_bytes(parameters, torch.optim.AdamW)


SCHEDULERS: dict[str, Any] = {
    "step": functools.partial(lr_scheduler.StepLR, step_size=2, gamma=0.3),
    "exponential": lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.5),
    "cosine": functools.partial(lr_scheduler.CosineAnnealingLR, T_max=3, eta_min=0.01),
    "one cycle": functools.partial(lr_scheduler.OneCycleLR, max_lr=0.1, total_steps=12, cycle_momentum=False),
    "sequence": lambda optimizer: lr_scheduler.SequentialLR(
        optimizer,
        [lr_scheduler.ConstantLR(optimizer, 0.1, 1), lr_scheduler.ExponentialLR(optimizer, 0.5)],
        milestones=[1],
    ),
}


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step:UserWarning", "ignore:The epoch parameter")
@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_of_torchs_gives_its_rates(name: str, made: bool):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    expected = plain(optimizer, model, SCHEDULERS[name](optimizer), by_step=name == "one cycle")
    own = network()
    optimizer = torch.optim.SGD(own.parameters(), lr=0.05)
    given = SCHEDULERS[name](optimizer) if made else SCHEDULERS[name]
    result = fit(own, optimizer=optimizer, schedule=given, lr=0.05)
    torch.testing.assert_close(weights(result.model), expected, rtol=1e-4, atol=1e-6)


def test_reduce_on_plateau_is_our_plateau_and_a_function_of_two_is_a_factor():
    optimizer = torch.optim.SGD(network().parameters(), lr=0.1)
    given = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=3, min_lr=0.01)
    plateau: Any = schedule(given)
    assert (plateau.factor, plateau.patience, plateau.threshold) == (0.5, 3, 1e-4)
    assert plateau.min_factor == pytest.approx(0.1)
    with pytest.raises(ConfigError, match="cooldown"):
        schedule(lr_scheduler.ReduceLROnPlateau(optimizer, cooldown=2))
    by_step: Any = schedule(lambda step, steps: step / steps)
    assert by_step.at(1, 4, 2) == 0.25
    with pytest.raises(ConfigError, match="schedule made a int"):
        fit(schedule=lambda optimizer: 3)


TWO_GROUPS: dict[str, tuple[Any, bool]] = {
    "two lambdas": (
        functools.partial(lr_scheduler.LambdaLR, lr_lambda=[lambda n: 0.5**n, lambda n: 1 / (n + 1)]),
        False,
    ),
    "eta_min": (functools.partial(lr_scheduler.CosineAnnealingLR, T_max=3, eta_min=0.01), False),
    "one cycle": (functools.partial(lr_scheduler.OneCycleLR, max_lr=[0.1, 0.03], total_steps=13), True),
    "cyclic": (functools.partial(lr_scheduler.CyclicLR, base_lr=0.01, max_lr=0.1, step_size_up=3), True),
    "cosine by step": (functools.partial(lr_scheduler.CosineAnnealingLR, T_max=12), True),
}


def two_groups(model: nn.Linear, kind: str) -> torch.optim.Optimizer:
    groups = [{"params": [model.weight], "lr": 0.05}, {"params": [model.bias], "lr": 0.02}]
    return torch.optim.Adam(groups) if kind == "adam" else torch.optim.SGD(groups, momentum=0.8)


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step:UserWarning", "ignore:The epoch parameter")
@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("kind", ["sgd", "adam"])
@pytest.mark.parametrize("name", TWO_GROUPS)
def test_each_group_has_the_rate_and_the_momentum_that_torchs_loop_gives_it(
    name: str, kind: str, made: bool, tmp_path: Path
):
    factory, by_step = TWO_GROUPS[name]
    model = network()
    optimizer = two_groups(model, kind)
    expected = plain(optimizer, model, factory(optimizer), by_step=by_step)
    every = {"schedule_every": "step"} if name == "cosine by step" else {}

    def run(epochs: int, out: Path | None = None) -> Tensor:
        own = network()
        optimizer = two_groups(own, kind)
        given = factory(optimizer) if made else factory
        own_name = {"fingerprint": "the same"} if out else {}
        return weights(fit(own, optimizer=optimizer, schedule=given, epochs=epochs, out=out, **every, **own_name).model)

    torch.testing.assert_close(run(4), expected, rtol=1e-4, atol=1e-6)
    run(2, tmp_path / "run")
    torch.testing.assert_close(run(4, tmp_path / "run"), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("form", ["class", "partial", "function"])
def test_a_plateau_of_torchs_in_every_form_follows_the_monitored_number(form: str):
    options: dict[str, Any] = (
        {} if form == "class" else {"factor": 0.5, "patience": 0, "threshold": 0.5, "min_lr": [0.01, 0.015]}
    )
    make = functools.partial(lr_scheduler.ReduceLROnPlateau, **options)
    forms = {"class": lr_scheduler.ReduceLROnPlateau, "partial": make, "function": lambda optimizer: make(optimizer)}
    own = network()
    result = fit(own, optimizer=two_groups(own, "sgd"), schedule=forms[form])
    order = (epoch["train_loss"] for epoch in result.history)
    replay = network()
    optimizer = two_groups(replay, "sgd")
    scheduler: Any = make(optimizer)
    scheduler.step = functools.partial(lambda step: step(next(order)), scheduler.step)  # with the same numbers
    torch.testing.assert_close(weights(own), plain(optimizer, replay, scheduler), rtol=1e-4, atol=1e-6)


def test_a_scheduler_that_cannot_be_made_is_refused_in_a_sentence():
    with pytest.raises(
        ConfigError, match=r"StepLR, which needs step_size; give functools.partial\(StepLR, step_size=...\)"
    ):
        fit(schedule=lr_scheduler.StepLR)
    with pytest.raises(ConfigError, match=r"LambdaLR could not be made for an optimizer with 1 parameter group"):
        fit(schedule=functools.partial(lr_scheduler.LambdaLR, lr_lambda=[abs, abs]))
    with pytest.raises(ConfigError, match="is of an optimizer with other groups or rates"):
        fit(schedule=lr_scheduler.StepLR(torch.optim.SGD(network().parameters(), lr=3.0), 1))
    with pytest.raises(ConfigError, match="schedule_every is of torch's schedulers"):
        fit(schedule="cosine", schedule_every="step")


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        (torch.optim.LBFGS, "optimizer is LBFGS, whose step evaluates the loss again by a closure"),
        (lambda parameters: torch.optim.LBFGS(parameters), "optimizer is LBFGS"),
        (torch.optim.SparseAdam, "optimizer is SparseAdam, which takes sparse gradients only"),
        (None, r"optimizer is None; give a name \(adamw"),
        (3, r"optimizer is 3; give a name \(adamw"),
    ],
)
def test_an_optimizer_that_does_not_fit_is_refused(optimizer: Any, words: str):
    with pytest.raises(ConfigError, match=words):
        fit(optimizer=optimizer)


@pytest.mark.parametrize("wrong", [nn.MSELoss(), nn.functional.mse_loss, None])
def test_a_loss_of_outputs_and_targets_is_refused_with_the_form_it_has_to_have(wrong: Any):
    with pytest.raises(
        brimful.InputError, match=r"has to be a function of the model and a batch(.|\n)*def loss\(model"
    ):
        brimful.train(network(), wrong, DATA, epochs=1, device="cpu")


def test_a_list_of_samples_is_data():
    model = network()
    samples = [{"x": x, "y": y} for x, y in zip(DATA["x"], DATA["y"], strict=True)]
    given = {"epochs": 4, "batch_size": 8, "device": "cpu", "progress": False, "best": False}
    brimful.train(model, loss, samples, **given)
    assert torch.equal(weights(model), weights(fit().model))


def test_a_callback_that_is_a_class_is_refused():
    class Callback:
        def on_epoch_end(self, epoch: int, values: dict[str, float]) -> None: ...

    with pytest.raises(ConfigError, match=r"callbacks has the class Callback; give an object of it: Callback\(\)"):
        fit(callbacks=Callback)
    with pytest.raises(ConfigError, match="callbacks has the class Callback"):
        fit(callbacks=[Callback])


def test_a_tracker_that_refuses_parameters_still_gets_the_metrics():
    def refuses(parameters: dict[str, Any]) -> None:
        raise RuntimeError("they were logged before")

    logged: list[int] = []
    sink = metric_sinks.MetricSink(lambda values, step: logged.append(step), lambda: None, refuses)
    with pytest.warns(brimful.BrimfulWarning, match="parameters of the run were not logged: they were logged before"):
        fit(callbacks=[sink])
    assert logged == [3, 6, 9, 12]
    with pytest.raises(ConfigError, match=r"wandb\(run\) was given a str; give a run"):
        metric_sinks.wandb("name")


def test_warm_restarts_can_be_named_in_words():
    cycles = fit(schedule="cosine", first_cycle=1, cycle_mult=2)
    assert torch.equal(
        weights(cycles.model),
        weights(fit(schedule=brimful.schedules.Cosine(first_cycle=1, cycle_mult=2)).model),
    )
    with pytest.raises(ConfigError, match="first_cycle and cycle_mult are of schedule='cosine'"):
        fit(first_cycle=2)


def test_a_compiled_model_is_trained_as_it_is():
    model = network()
    result = fit(torch.compile(model, backend="eager"))  # pyright: ignore[reportArgumentType]
    assert result.model is model
    assert torch.equal(weights(model), weights(fit().model))
    assert torch.equal(weights(fit(compile={"backend": "eager"}).model), weights(model))


class Recorder:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_train_begin(self, event: Started) -> None:
        self.calls.append(event.work)

    def on_epoch_end(self, epoch: int, values: dict[str, float]) -> None:
        self.calls.append((epoch, values["train_loss"]))

    def on_train_end(self, event: Finished) -> None:
        self.calls.append(event.state)


def test_callbacks_are_objects_with_the_usual_methods_or_functions_of_events():
    recorder, events = Recorder(), list[Any]()
    result = fit(epochs=2, callbacks=[recorder, events.append])
    assert recorder.calls == [
        "train",
        *((row["epoch"], row["train_loss"]) for row in result.history),
        "finished",
    ]
    assert [event.epoch for event in events if isinstance(event, EpochDone)] == [1, 2]
    with pytest.raises(ConfigError, match="callbacks has a int; give functions of an event"):
        fit(callbacks=[3])


def test_a_learning_rate_is_found_and_the_model_is_as_it_was(tmp_path: Path):
    model = network()
    before = weights(model)
    found = brimful.find_lr(model, loss, DATA, batch_size=8, steps=60, low=1e-5, high=10, optimizer="sgd", device="cpu")
    assert torch.equal(weights(model), before)
    assert 1e-3 < found.suggestion < 1  # of a quadratic with curvatures near 2
    assert found.loss[-1] > 2 * found.loss.min() and len(found.lr) == len(found.loss) <= 60
    assert found.draw(tmp_path / "rates.png").exists()
    assert "suggestion" in repr(found)
    cases: list[tuple[dict[str, Any], str]] = [({"low": 1.0, "high": 0.1}, "0 < low"), ({"steps": 3}, "at least 10")]
    for wrong, words in cases:
        with pytest.raises(ConfigError, match=words):
            brimful.find_lr(model, loss, DATA, batch_size=8, device="cpu", **wrong)
    with pytest.raises(ConfigError, match="lr is the search's own"):
        brimful.find_lr(model, loss, DATA, batch_size=8, device="cpu", lr=0.1)


def test_losses_of_a_search_that_fall_fastest_at_a_rate_suggest_it():
    rates = np.logspace(-6, 0, 61)
    curve = 1 / (1 + np.exp(4 * (np.log10(rates) + 3)))  # falls fastest at 1e-3
    assert 1e-3 <= from_curve(rates, curve).suggestion < 3e-2  # smoothing lags
    with pytest.raises(ConfigError, match="not finite from the start"):
        from_curve(rates, np.full(61, np.nan))


class Writer:
    """Stands in for the trackers, none of which is installed with the core."""

    logged: list[Any]

    def __init__(self, log_dir: str) -> None:
        Writer.logged = [log_dir]

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.logged.append((name, value, step))

    def flush(self) -> None: ...

    def close(self) -> None:
        self.logged.append("closed")


def test_tensorboard_gets_every_epochs_numbers(monkeypatch: pytest.MonkeyPatch):
    fake: Any = types.ModuleType("torch.utils.tensorboard")
    fake.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    result = fit(epochs=2, callbacks=metric_sinks.tensorboard("runs/a"))
    losses = [(row["train_loss"], row["step"]) for row in result.history]
    assert [(value, step) for name, value, step in Writer.logged[1:-1] if name == "train_loss"] == losses
    assert (Writer.logged[0], Writer.logged[-1]) == ("runs/a", "closed")


def test_mlflow_and_wandb_get_them_too(monkeypatch: pytest.MonkeyPatch):
    calls: list[Any] = []
    fake: Any = types.ModuleType("mlflow")
    fake.active_run = lambda: None
    fake.start_run = lambda run_name: types.SimpleNamespace(info=types.SimpleNamespace(run_id=f"id of {run_name}"))
    fake.log_metrics = lambda values, step, run_id: calls.append((run_id, step, values["train_loss"]))
    fake.log_params = lambda values: calls.append(values["work"])
    fake.end_run = lambda: calls.append("ended")
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    result = fit(epochs=1, callbacks=metric_sinks.mlflow("a"))
    row = result.history[0]
    assert calls == ["train", ("id of a", row["step"], row["train_loss"]), "ended"]
    calls.clear()
    given = types.SimpleNamespace(log=lambda values, step: calls.append((step, values["train_loss"])))
    fit(epochs=1, callbacks=metric_sinks.wandb(given))
    assert calls == [(row["step"], row["train_loss"])]


def test_a_tracker_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'brimful\[wandb\]'"), warnings.catch_warnings():
        metric_sinks.wandb()
