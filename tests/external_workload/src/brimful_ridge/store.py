"""That result on disk: model.json, and the tensors beside it."""

from pathlib import Path

from brimful import Plan
from brimful.workloads import model_store

from .result import RidgeResult

KIND, VERSION = "ridge", 1  # the kind is the workload's name


def save(result: RidgeResult, folder: str | Path) -> Path:
    """Writes a result for `load`."""
    meta = {"plan": result.plan.to_dict(), "observed": result.observed, "seconds": result.seconds}
    tensors = {"fit": {"w": result.w_TD, "error": result.error_T}}
    return model_store.save(folder, kind=KIND, version=VERSION, meta=meta, tensors=tensors)


def load(folder: str | Path) -> RidgeResult:
    """The result that `save` wrote: `brimful.open` calls it."""
    stored = model_store.load(folder, kind=KIND, version=VERSION, command="brimful ridge fit")
    try:
        fit, plan = stored.tensors("fit") or {}, Plan.from_dict(stored.meta["plan"])
        return RidgeResult(
            fit["w"], fit["error"], plan=plan, observed=stored.meta["observed"], seconds=stored.meta["seconds"]
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise stored.damaged(error) from error
