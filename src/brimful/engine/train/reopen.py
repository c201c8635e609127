"""The result of a training run that has finished, from its directory alone: nothing is trained, locked or written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from torch import Tensor, nn

from ...core.base.errors import CorruptError, InputError
from ...core.declare.result import ResultRecord
from ...core.runs.log_state import read_state
from ...core.runs.rundir import LOG, RunDir, identity_of
from .checkpoints import CheckpointDir
from .result import TrainResult
from .state import TrainState


class StoredWeights(nn.Module):
    """The weights of a model whose code is not there, under their own names; `net.load_state_dict(self.state_dict())`
    puts them into one that has it."""

    def forward(self, *inputs: Any, **options: Any) -> NoReturn:
        raise InputError(
            "a run directory holds a model's weights and not its code: give the model to brimful.open(path, "
            "model=net), or load them with net.load_state_dict(result.model.state_dict())"
        )

    @classmethod
    def of(cls, weights: Mapping[str, Tensor], trainable: list[str]) -> "StoredWeights":
        """Parameters are those that were trained; all else is a buffer."""
        whole = cls()
        for name, value in weights.items():
            *modules, own = name.split(".")
            module: nn.Module = whole
            for part in modules:
                if part not in module._modules:
                    module.add_module(part, StoredWeights())
                module = module.get_submodule(part)
            if name in trainable:
                module.register_parameter(own, nn.Parameter(value))
            else:
                module.register_buffer(own, value)
        return whole.eval()


def record(run: RunDir, result: TrainResult, keep_best: bool) -> TrainResult:
    """Records a result in the manifest of its run. Where the run had finished before, it is what it was then."""
    before = ResultRecord.of(run.manifest)
    if before is not None and before.own.get("steps") == result.steps and result.seconds <= before.seconds:
        return result.measured_as(before)
    logged = read_state(run.path / LOG)
    trainable = [name for name, parameter in result.model.named_parameters() if parameter.requires_grad]
    own = {
        "steps": result.steps,
        "micro_batches": result.micro_batches,
        "keep_best": keep_best,
        "weights": result.weights,
        "trainable": trainable,
        "names": list(result.model.state_dict()),  # in the model's order, which a checkpoint does not keep
    }
    made = ResultRecord(logged.done, logged.bad, result.seconds, result.observed, result.plan, own, result.compiling)
    run.record(result=made.to_json())
    return result


def reopen(path: Path, manifest: dict[str, Any], model: nn.Module | None = None) -> TrainResult | None:
    """The result of a run; None where it has not finished.

    Args:
        model: gets the weights. Without it, the result's model holds them under their names and computes nothing.

    Raises:
        CorruptError: a checkpoint that it needs is damaged.
        InputError: the weights are not those of the model.
    """
    stored, faults = ResultRecord.of(manifest), list[str]()
    if stored is None:
        return None
    directory = CheckpointDir(path, identity_of(manifest))
    last = directory.last(faults.append)
    advice = "Run the same command again to train what is missing"
    if last is None or faults:
        raise CorruptError(f"{path} cannot be opened: {'; '.join(faults) or 'it holds no checkpoint'}. {advice}")
    try:
        state = TrainState.from_json(last.metadata["state"], last.tensors["curve"])
        if not state.stopped or state.step != stored.own["steps"]:
            return None  # of a run that was resumed with more epochs
        best = directory.best if stored.own["keep_best"] else None
        weights = (last if best is None else directory.read(best)).weights(trainable := stored.own["trainable"])
        weights = {name: weights[name] for name in stored.own["names"]}
        if model is not None:
            _load(model, weights, path)
        return TrainResult(
            model=StoredWeights.of(weights, trainable) if model is None else model,
            history=state.history,
            curve=np.asarray(state.curve, dtype=np.float32).reshape(-1, 2),
            best=state.history[state.best_epoch] if state.best_epoch is not None else None,
            epochs=state.epoch,
            steps=state.step,
            seconds=stored.seconds,
            compiling=stored.compiling,
            plan=stored.plan,
            micro_batches=stored.own["micro_batches"],
            observed=stored.observed,
            stopped=state.stopped,
            weights=stored.own["weights"],
            out=path,
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CorruptError(f"{path} cannot be opened, for a checkpoint makes no sense: {error!r}. {advice}") from error


def _load(model: nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(f"model is a {type(model).__name__}; give the torch.nn.Module that was trained")
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise InputError(f"the weights in {path} are not those of this model: {error}") from error
    model.eval()
