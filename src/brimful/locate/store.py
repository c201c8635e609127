"""A trained network on disk.

model.json             form, scaling, scenario, sites, metrics, history, plan; with checksums
weights.safetensors    the weights
held-out.parquet       some recordings that training did not see, and the predictions of them; may be removed
device-use.parquet     memory, utilisation and power over the run
"""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from ..core.base import arrow
from ..core.base.arguments import check_type
from ..core.declare.config import build
from ..core.memory.plan import Plan
from ..core.runs import model_store
from .data.features import FEATURES, Scaling
from .data.receiver_set import ReceiverSet, sites_tensor
from .device_use import DeviceUse
from .evaluation.metrics import LocationScores
from .model.networks import LocationNetwork, NetworkConfig
from .physics.scenario import Scenario
from .result import HeldOut, LocateResult

KIND, VERSION = "locate", 1
HELD_OUT = 5_000
"""Recordings that are stored with a model, at most."""

_PLAIN = ("scale", "history", "best_epoch", "settings", "left_out", "observed", "seconds")
_SAMPLES = ("seconds", "used_bytes", "utilisation", "watts")


def save(result: LocateResult, folder: str | Path) -> Path:
    """Writes a result, so that `load` and the commands work without the original data."""
    check_type(result, LocateResult, "give what locate.train or locate.load returned")
    use = result.device_use
    meta = {
        "network": asdict(result.model.config),
        "scaling": asdict(result.scaling),
        "scenario": None if result.scenario is None else asdict(result.scenario),
        "sites": result.receiver_set.sites.tolist(),
        "scores": asdict(result.scores),
        "device_use": {field.name: getattr(use, field.name) for field in fields(use) if field.name != "samples"},
        "plan": result.plan.to_dict(),
        **{name: getattr(result, name) for name in _PLAIN},
    }
    columns, note = arrow.to_columns({name: value.contiguous() for name, value in result.held_out.tensors().items()})
    held_out = pa.table(columns).replace_schema_metadata(arrow.schema_note(note))
    kinds = (pa.float64(), pa.int64(), pa.float64(), pa.float64())
    rows = [[row[column] for row in use.samples] for column in range(len(_SAMPLES))]
    seen = pa.table({name: pa.array(row, kind) for name, row, kind in zip(_SAMPLES, rows, kinds, strict=True)})
    return model_store.save(
        folder,
        kind=KIND,
        version=VERSION,
        meta=meta,
        tensors={"weights": result.model.state_dict()},
        tables={"held-out": held_out, "device-use": seen},
    )


def load(folder: str | Path) -> LocateResult:
    """The result that `train` or `save` wrote to a folder; on the CPU."""
    stored = model_store.load(folder, kind=KIND, version=VERSION, command="brimful locate train")
    meta = stored.meta
    try:
        model = LocationNetwork(NetworkConfig(**meta["network"]))
        model.load_state_dict(stored.tensors("weights") or {})
        scaling = Scaling(**{name: _tuple(value) for name, value in meta["scaling"].items()})
        seen = stored.table("device-use", optional=True)
        rows = [] if seen is None else zip(*(seen[name].to_pylist() for name in _SAMPLES), strict=True)
        return LocateResult(
            model=model.eval(),
            scaling=scaling,
            scenario=meta["scenario"] and build(Scenario, meta["scenario"]),
            receiver_set=ReceiverSet(sites_tensor(meta["sites"])),
            scores=LocationScores(**meta["scores"]),
            held_out=_held_out(stored.table("held-out", optional=True), scaling),
            device_use=DeviceUse(**meta["device_use"], samples=tuple(rows)),
            plan=Plan.from_dict(meta["plan"]),
            **{name: meta[name] for name in _PLAIN},
        )
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise stored.damaged(error) from error


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _held_out(table: Any, scaling: Scaling) -> HeldOut:
    """Without recordings where the table was removed, as one may before passing a model on."""
    if table is None:
        shapes = {"features": (3, len(FEATURES)), "mask": (3,), "target": (2,), "gdop": (), "centroid": (2,)}
        shapes |= {"position": (2,), "covariance": (2, 2)}
        none = {name: torch.zeros((0, *shape)) for name, shape in shapes.items()}
        return HeldOut(**none, position_m=scaling.position_m)
    values: Any = arrow.from_columns(table)
    return HeldOut(**values, position_m=scaling.position_m)
