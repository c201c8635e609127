"""One small run of each kind, for tests of what is left of it on disk."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import brimful
from brimful import gp, gpcm, programs, wpo
from brimful.core.declare.config import build
from brimful.core.runs.context import RunContext
from brimful.nets import commands
from brimful.nets.options import TrainConfig

from ..engine.map.mapping import rows, run
from ..engine.train import training
from ..programs.helpers.small import small

ITEMS = 40


def uneven(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Two values per item; one item fails, one is not finite."""
    if (x[:, 0] == 13).any():
        raise ValueError("thirteen")
    return {"twice": torch.where(x == 30, torch.nan, 2 * x), "sum": x.sum(1).double()}


def made_map(out: Path, **options: Any) -> brimful.MapResult:
    return run(uneven, rows(ITEMS), batch_size=8, out=out, **options)


def made_train(out: Path, **options: Any) -> brimful.TrainResult:
    settings = {"valid": training.points(6), "ema": 0.9, "epochs": 3, "checkpoint_every": 4, "lr": 0.05}
    return training.fit(training.network(0.2), out=out, **{**settings, **options})


def made_gp(out: Path, **options: Any) -> gp.Fit:
    generator = np.random.default_rng(0)
    x = np.linspace(0, 1, 8)
    y = np.sin(5 * x * generator.uniform(0.5, 2, (6, 1))) + 0.1 * generator.normal(size=(6, 8))
    settings: dict[str, Any] = {"progress": False, "device": "cpu", "batch_size": 2, **options}
    return gp.fit(x, y, out=out, **settings)


def made_gpcm(out: Path, **options: Any) -> Any:
    settings: dict[str, Any] = {"epochs": 2, "device": "cpu", "progress": False, **options}
    return gpcm.train("synthetic_OC_30_5_3", out=out, **settings)


def made_folds(out: Path, **options: Any) -> Any:
    return made_gpcm(out, n_folds=2, jobs=1, **options)


def made_wpo(out: Path, **options: Any) -> wpo.WPOResult:
    x = torch.randn(90, 2, generator=torch.Generator().manual_seed(0))
    settings: dict[str, Any] = {"steps": 6, "batch_size": 20, "device": "cpu", "progress": False, **options}
    return wpo.train(wpo.ScoreModel(x[:20]), x[20:], out=out, **settings)


def made_programs(out: Path, **options: Any) -> programs.ProgramResult:
    return small(out=out, batch_size=2, **options)


def made_nets(out: Path) -> Any:
    config = build(TrainConfig, {"count": 30, "steps": 3, "device": "cpu", "out": out})
    return commands.train(config, RunContext())


MADE: dict[str, Callable[..., Any]] = {
    "map": made_map,
    "train": made_train,
    "gp": made_gp,
    "gpcm": made_gpcm,
    "folds": made_folds,
    "wpo": made_wpo,
    "programs": made_programs,
}

"""Kind of a run to the function that makes it, or goes on with it, in a folder; and takes further options."""


def values(result: Any) -> dict[str, Any]:
    """What must not change unnoticed, by name: arrays, and plain values."""
    match result:
        case brimful.MapResult():
            found: Any = result.values
            return {"status": result.status, "messages": result.messages, **found}
        case brimful.TrainResult():
            history = [{name: row[name] for name in row if not name.endswith("seconds")} for row in result.history]
            plain = {"history": history, "curve": result.curve, "best": result.best and result.best["epoch"]}
            return {**plain, **result.model.state_dict(), "steps": result.steps, "stopped": result.stopped}
        case gp.Fit():
            return {
                "status": result.status,
                "nlml": result.nlml,
                **result.params,
                "predicted": replace(result, device="cpu").predict([0.5])[0],  # one that is opened chooses by itself
            }
        case gpcm.GPCMResult():
            return {"scores": result.scores, **result.model.state_dict(), "alpha": result.items.alpha_Q}
        case gpcm.CrossValidationResult():
            folds = enumerate(result.folds)
            return {f"{number} {name}": value for number, fold in folds for name, value in values(fold).items()}
        case programs.ProgramResult():
            arrays = {name: getattr(result.outcomes, name) for name in ("status", "step", "category", "equal")}
            return {**arrays, "outputs": list(result.outputs), "messages": result.messages}
        case wpo.WPOResult():
            return {"scores": result.scores, **result.model.state_dict(), "best_epoch": result.best_epoch}
    raise TypeError(result)


def alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two such are the same."""

    def same(a: Any, b: Any) -> bool:
        if isinstance(a, torch.Tensor | np.ndarray):
            a, b = np.asarray(a), np.asarray(b)
            return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        return repr(sorted(a.items()) if isinstance(a, dict) else a) == repr(
            sorted(b.items()) if isinstance(b, dict) else b
        )

    return set(one) == set(other) and all(same(one[name], other[name]) for name in one)
