"""A trained score model on disk.

model.json            sizes, settings, scores, history, plan; with checksums
weights.safetensors   weights and centers
report.safetensors    rows for the report, of data and samples, and the loss of every step; may be removed
"""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch

from ..core.base.arguments import check_type
from ..core.memory.plan import Plan
from ..core.runs import model_store
from .evaluation.scores import ReportSamples, Scores
from .model.score_model import ScoreModel
from .result import WPOResult

KIND, VERSION = "wpo", 1
_PLAIN = ("history", "best_epoch", "observed", "seconds", "settings", "image_shape")


def save(result: WPOResult, folder: str | Path) -> Path:
    """Writes a result for `load` and the commands."""
    check_type(result, WPOResult, "give what wpo.train or wpo.load returned")
    model = result.model
    meta = {
        "model": asdict(model.config),
        "centers": list(model.standardized_Kd.shape),
        "dtype": str(model.dtype).removeprefix("torch."),
        "scores": asdict(result.scores),
        "plan": result.plan.to_dict(),
        **{name: getattr(result, name) for name in _PLAIN},
    }
    rows = {field.name: getattr(result.report_samples, field.name) for field in fields(ReportSamples)}
    tensors = {"weights": model.state_dict(), "report": {**rows, "curve": torch.from_numpy(result.curve)}}
    return model_store.save(folder, kind=KIND, version=VERSION, meta=meta, tensors=tensors)


def load(folder: str | Path) -> WPOResult:
    """The result that `train` or `save` wrote to a folder; on the CPU."""
    stored = model_store.load(folder, kind=KIND, version=VERSION, command="brimful wpo train")
    meta = stored.meta
    try:
        dtype = getattr(torch, meta["dtype"])
        model = ScoreModel(torch.zeros(meta["centers"], dtype=dtype), scale=1.0, **meta["model"])
        model.load_state_dict(stored.tensors("weights") or {})
        rows = stored.tensors("report", optional=True) or _empty_report(model.d, dtype)
        plain: dict[str, Any] = {name: meta[name] for name in _PLAIN}
        plain["image_shape"] = plain["image_shape"] and tuple(plain["image_shape"])
        return WPOResult(
            model=model.eval(),
            scores=Scores(**meta["scores"]),
            plan=Plan.from_dict(meta["plan"]),
            curve=rows.pop("curve").numpy(),
            report_samples=ReportSamples(**rows),
            **plain,
        )
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise stored.damaged(error) from error


def _empty_report(d: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Where the rows were removed, as one may before passing a model on."""
    shapes = {field.name: (0, d) if field.name.endswith("d") else (0,) for field in fields(ReportSamples)}
    return {name: torch.zeros(shape, dtype=dtype) for name, shape in shapes.items()} | {"curve": torch.zeros(0, 2)}
