"""A trained model on disk.

model.json            what it is: sizes, settings, scores, history, memory table; sealed
weights.safetensors   weights and centers
shown.safetensors     rows for the pictures, of data and draws, and the loss of every step; may be taken away
"""

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from ..core.base.errors import BrimfulError, CorruptError, InputError
from ..core.runs.files import read_sealed, write_atomic, write_sealed
from .evaluation.scores import Scores, Shown
from .memory_table import Table
from .model.score_model import ScoreModel
from .outcome import Outcome

MODEL, KIND = "model.json", "brimful.wpo/1"
WEIGHTS, SHOWN = "weights.safetensors", "shown.safetensors"


def write(folder: Path, trained: Outcome) -> Path:
    """Writes a model; `model.json` comes last, and without it a folder holds none."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MODEL).unlink(missing_ok=True)  # not over new weights
    model = trained.model
    _write(folder / WEIGHTS, model.state_dict())
    shown = {each.name: getattr(trained.shown, each.name) for each in fields(Shown)}
    _write(folder / SHOWN, {**shown, "curve": torch.from_numpy(trained.curve)})
    body = {
        "model": asdict(model.config),
        "centers": list(model.inner_Kd.shape),
        "dtype": str(model.dtype).removeprefix("torch."),
        "scores": asdict(trained.scores),
        "history": list(trained.history),
        "best": trained.best,
        "table": trained.table.to_dict(),
        "predicted": trained.predicted,
        "observed": trained.observed,
        "settings": trained.settings,
        "image": trained.image,
        "seconds": trained.seconds,
    }
    write_sealed(folder / MODEL, KIND, body)
    return folder


def read(path: Path) -> dict[str, Any]:
    """The values of an `Outcome` from the folder that `write` wrote to; on the CPU."""
    if not (path / MODEL).exists():
        raise InputError(f"{path} holds no trained model (check the path; `brimful wpo train --out {path}` makes one)")
    body = read_sealed(path / MODEL, KIND)
    try:
        dtype = {"float32": torch.float32, "float64": torch.float64}[body["dtype"]]
        model = ScoreModel(torch.zeros(body["centers"], dtype=dtype), unit=1.0, **body["model"])
        model.load_state_dict(safetensors.torch.load_file(path / WEIGHTS))
        rows = safetensors.torch.load_file(path / SHOWN) if (path / SHOWN).exists() else _none(model.d, dtype)
        curve = rows.pop("curve").numpy()
        return {
            "model": model.eval(),
            "scores": Scores(**body["scores"]),
            "shown": Shown(**rows),
            "history": body["history"],
            "curve": curve,
            "best": body["best"],
            "table": Table.from_dict(body["table"]),
            "predicted": body["predicted"],
            "observed": body["observed"],
            "settings": body["settings"],
            "image": None if body["image"] is None else tuple(body["image"]),
            "seconds": body["seconds"],
        }
    except BrimfulError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, safetensors.SafetensorError) as error:
        raise CorruptError(f"{path} is damaged or incomplete: {error}; train again into a new folder") from error


def _write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    sent = {name: each.detach().cpu().contiguous() for name, each in tensors.items()}
    write_atomic(path, lambda temporary: safetensors.torch.save_file(sent, temporary))


def _none(d: int, dtype: torch.dtype) -> dict[str, Any]:
    """Where the rows were taken away, as one may before passing a model on."""
    rows = {name: torch.zeros(0, d, dtype=dtype) for name in ("data_nd", "drawn_nd", "nearest_id")}
    none = {name: torch.zeros(0, dtype=dtype) for name in ("drawn_distance_n", "held_out_distance_n")}
    return {**rows, **none, "curve": torch.zeros(0, 2)}
