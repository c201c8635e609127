"""Metrics of a run for experiment trackers: callbacks over the event stream, which import theirs when they are made.

    brimful.train(..., callbacks=[brimful.metric_sinks.tensorboard("runs/a")])

Each epoch's loss, learning rate, norms and metrics are logged under their names, by the number of steps that are done.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..base.errors import BrimfulWarning, ConfigError
from ..base.extras import require
from .events import EpochDone, Event, Finished, Started

__all__ = ["mlflow", "tensorboard", "wandb"]


class MetricSink:
    """Logs numbers by name and step, and ends with the run.

    Args:
        log: gets the numbers by name, and the step.
        close: called at the end.
        begin: gets the run's name and sizes when it starts.
    """

    def __init__(
        self,
        log: Callable[[dict[str, float], int], Any],
        close: Callable[[], Any],
        begin: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        self._log, self._end, self._begin = log, close, begin

    def __call__(self, event: Event) -> None:
        match event:
            case Started() if self._begin is not None:
                self._log_parameters(self._begin, event)
            case EpochDone():
                numbers = {name: float(value) for name, value in event.values.items()}
                self._log({**numbers, "epoch": float(event.epoch)}, event.step)
            case Finished():
                self._end()

    @staticmethod
    def _log_parameters(begin: Callable[[dict[str, Any]], Any], event: Started) -> None:
        """As well as it goes: a tracker refuses, for one, other values of a run that has some already."""
        try:
            begin({"work": event.work, "items": event.items, "budget": event.budget})
        except Exception as error:
            warnings.warn(f"the parameters of the run were not logged: {error}", BrimfulWarning, stacklevel=2)


def tensorboard(log_dir: str | Path) -> MetricSink:
    """Scalars in a folder that `tensorboard --logdir` shows. Needs the extra `tensorboard`."""
    writer = require("tensorboard", "torch.utils.tensorboard").SummaryWriter(str(log_dir))

    def log(values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return MetricSink(log, writer.close)


def mlflow(run_name: str | None = None, experiment: str | None = None) -> MetricSink:
    """Metrics of an MLflow run: the active one, or a new one that ends with the training. Needs the extra `mlflow`."""
    api = require("mlflow", "mlflow")
    if experiment is not None:
        api.set_experiment(experiment)
    own = api.active_run() is None
    run_id = (api.start_run(run_name=run_name) if own else api.active_run()).info.run_id

    def log(values: dict[str, float], step: int) -> None:
        api.log_metrics(values, step=step, run_id=run_id)

    return MetricSink(log, api.end_run if own else _nothing, api.log_params)


def wandb(run: Any = None, **options: Any) -> MetricSink:
    """Metrics of a Weights & Biases run: one that is given, or a new one, by `wandb.init(**options)`, which ends with
    the training. Needs the extra `wandb`."""
    own = run is None
    if not own and not callable(getattr(run, "log", None)):
        raise ConfigError(
            f"wandb(run) was given a {type(run).__name__}; give a run of Weights & Biases, or options of a new one: "
            "wandb(name=..., project=...)"
        )
    target = require("wandb", "wandb").init(**options) if own else run
    log = target.log
    return MetricSink(lambda values, step: log(values, step=step), target.finish if own else _nothing)


def _nothing() -> None:
    """A run that was there before is not ended."""
