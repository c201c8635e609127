"""A trained model on disk.

model.json            what it is: sizes, categories, options of the training, scores, how it learned; sealed
weights.safetensors   the weights, and weights-int8.safetensors the 8-bit ones where they were asked for
items.parquet         the questions, which are the vocabulary, with their discrimination and thresholds
held-out.parquet      the held-out students' answers, and what was predicted of them; may be taken away
true_irt_parameters.json  for synthetic data, what is true
"""

import functools
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors
import safetensors.torch

from ..core.base.errors import CorruptError, InputError
from ..core.runs.files import read_sealed, write_atomic, write_sealed
from .data import true_parameters as truths
from .data.students import Students
from .evaluation.item_parameters import Items
from .evaluation.metrics import Scores
from .evaluation.parameter_recovery import Recovery
from .model.deep_gpcm import Config, DeepGPCM
from .model.quantize import quantize
from .outcome import Held, Outcome, Rounded

MODEL, KIND = "model.json", "brimful.gpcm/1"
WEIGHTS, SMALL, ITEMS, HELD = "weights.safetensors", "weights-int8.safetensors", "items.parquet", "held-out.parquet"


def write(folder: Path, trained: Outcome) -> Path:
    """Writes a model; `model.json` comes last, and without it a folder holds none."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MODEL).unlink(missing_ok=True)  # not over new weights
    weights = {name: each.detach().cpu().contiguous() for name, each in trained.model.state_dict().items()}
    write_atomic(folder / WEIGHTS, safetensors.torch.save(weights))
    if trained.rounded is not None:
        small = {name: each.cpu().contiguous() for name, each in trained.rounded.model.state_dict().items()}
        write_atomic(folder / SMALL, safetensors.torch.save(small))
    _write_table(folder / ITEMS, trained.item_table())
    held = trained.held
    sequence = np.repeat(np.arange(len(held.students)), held.students.lengths)
    _write_table(folder / HELD, held.table(trained.predict_by).append_column("sequence", pa.array(sequence)))
    if trained.truth is not None:
        truths.write(folder, trained.truth)
    recovery = trained.recovery
    body: dict[str, Any] = {
        "model": asdict(trained.model.config),
        "scores_given": trained.train.scores,
        "scores": asdict(trained.scores),
        "history": list(trained.history),
        "best": trained.best,
        "settings": trained.settings,
        "recovery": None if recovery is None else asdict(recovery) | {"beta_each_H": recovery.beta_each_H.tolist()},
        "rounded": None if trained.rounded is None else [trained.rounded.bytes, trained.rounded.lost_qwk],
        "predict_by": trained.predict_by,
        "seconds": trained.seconds,
    }
    write_sealed(folder / MODEL, KIND, body)
    return folder


def is_model(folder: Path) -> bool:
    return (folder / MODEL).exists()


def read(folder: Path) -> dict[str, Any]:
    """The values of the `Outcome` that `write` wrote."""
    if not is_model(folder):
        raise InputError(
            f"{folder} holds no trained model (check the path; `brimful gpcm train --out {folder}` makes one)"
        )
    body = read_sealed(folder / MODEL, KIND)
    model = DeepGPCM(Config(**body["model"]))
    try:
        model.load_state_dict(safetensors.torch.load((folder / WEIGHTS).read_bytes()))
        items, train = _items(pq.read_table(folder / ITEMS), model.config.categories, body["scores_given"])
        held = _held(pq.read_table(folder / HELD), train) if (folder / HELD).exists() else _none(train)
        small = None if body["rounded"] is None else _small(folder / SMALL, model, *body["rounded"])
    except (OSError, RuntimeError, KeyError, ValueError, pa.ArrowException, safetensors.SafetensorError) as error:
        raise CorruptError(f"{folder} is damaged or incomplete: {error}; train again into a new folder") from error
    recovery = body["recovery"]
    if recovery is not None:
        recovery = Recovery(**(recovery | {"beta_each_H": np.array(recovery["beta_each_H"])}))
    return {
        "model": model.eval(),
        "train": train,
        "items": items,
        "scores": Scores(**body["scores"]),
        "held": held,
        "history": body["history"],
        "best": body["best"],
        "settings": body["settings"],
        "recovery": recovery,
        "truth": truths.read(folder / truths.FILE) if (folder / truths.FILE).exists() else None,
        "rounded": small,
        "predict_by": body["predict_by"],
        "seconds": body["seconds"],
    }


def _write_table(path: Path, table: pa.Table) -> None:
    write_atomic(path, functools.partial(pq.write_table, table, write_page_checksum=True))


def _items(table: pa.Table, categories: int, scores: bool) -> tuple[Items, Students]:
    beta = [table[f"beta_{place}"].to_numpy() for place in range(1, categories)]
    items = Items(table["alpha"].to_numpy(), np.stack(beta, axis=1), table["asked"].to_numpy())
    names = np.array(table["question"].to_pylist(), dtype=str)
    none = np.zeros(0, np.int32)
    return items, Students(none, none, np.zeros(1, np.int64), np.zeros(0, str), names, categories, scores)


def _held(table: pa.Table, train: Students) -> Held:
    number = {name: place for place, name in enumerate(train.questions.tolist())}
    known, asked = table["known"].to_pylist(), table["question"].to_pylist()
    question = [number[name] if there else len(number) for name, there in zip(asked, known, strict=True)]
    sequence = table["sequence"].to_numpy()
    begins = np.flatnonzero(np.diff(sequence, prepend=-1))
    names = np.array(table["student"].to_pylist(), dtype=str)
    students = Students(
        np.array(question, np.int32),
        table["response"].to_numpy().astype(np.int32),
        np.append(begins, len(sequence)).astype(np.int64),
        names[begins] if len(names) else np.zeros(0, str),
        train.questions,
        train.categories,
        train.scores,
    )
    p_TK = np.stack([table[f"p_{category}"].to_numpy() for category in range(train.categories)], axis=1)
    return Held(students, p_TK, table["theta"].to_numpy(), table["alpha"].to_numpy())


def _none(train: Students) -> Held:
    """Where the answers of the held-out students were taken away, as one may before passing a model on."""
    return Held(train, np.zeros((0, train.categories), np.float32), np.zeros(0, np.float32), np.zeros(0, np.float32))


def _small(path: Path, model: DeepGPCM, size: int, lost: float) -> Rounded:
    small = quantize(model)
    small.load_state_dict(safetensors.torch.load(path.read_bytes()))
    return Rounded(small, size, lost)
