"""A trained model on disk.

model.json            sizes, options, metrics, history, plan; with checksums
weights.safetensors   the weights, and int8.safetensors the 8-bit ones where they were asked for
items.parquet         the questions, which are the vocabulary, with their discrimination and thresholds
held-out.parquet      the held-out students' answers and their predictions; may be removed
true.safetensors      for synthetic data, the true parameters

A cross-validation has one such folder per fold (`fold-1`, `fold-2`, ...), and `folds.json`.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from ..core.base.arguments import as_path, check_type
from ..core.base.errors import InputError
from ..core.memory.plan import Plan
from ..core.runs import model_store
from ..core.runs.files import read_sealed, write_sealed
from .data.students import Students
from .data.true_parameters import TrueParameters
from .evaluation.inference import Predictions
from .evaluation.item_parameters import ItemParameters
from .evaluation.metrics import OrdinalScores
from .evaluation.parameter_recovery import Recovery
from .model.deep_gpcm import DeepGPCM, DeepGPCMConfig
from .model.quantize import quantize
from .result import CrossValidationResult, GPCMResult

KIND, VERSION = "gpcm", 1
FOLDS, FOLDS_KIND = "folds.json", "brimful.gpcm.folds/2"
_PLAIN = ("history", "best_epoch", "settings", "observed", "seconds", "int8_qwk_loss")


def save(result: GPCMResult | CrossValidationResult, folder: str | Path) -> Path:
    """Writes a result, so that `load` and the commands work without the original data."""
    check_type(result, (GPCMResult, CrossValidationResult), "give what gpcm.train or gpcm.load returned")
    folder = as_path(folder, "give a folder to write to")
    if isinstance(result, CrossValidationResult):
        for number, fold in enumerate(result.folds, 1):
            save(fold, fold_folder(folder, number))
        return save_folds(result, folder)
    students, recovery = result.held_out.students, result.recovery
    meta = {
        "model": asdict(result.model.config),
        "partial_credit": result.vocabulary.partial_credit,
        "scores": asdict(result.scores),
        "plan": result.plan.to_dict(),
        "recovery": None if recovery is None else asdict(recovery) | {"beta_r_H": recovery.beta_r_H.tolist()},
        **{name: getattr(result, name) for name in _PLAIN},
    }
    tensors = {"weights": result.model.state_dict()}
    if result.int8 is not None:
        tensors["int8"] = result.int8.state_dict()
    if result.true_parameters is not None:
        tensors["true"] = {name: torch.from_numpy(value) for name, value in asdict(result.true_parameters).items()}
    sequence = pa.array(np.repeat(np.arange(len(students)), students.lengths))
    held_out = result.held_out.table(result.predict_by).append_column("sequence", sequence)
    tables = {"items": result.item_table(), "held-out": held_out}
    return model_store.save(folder, kind=KIND, version=VERSION, meta=meta, tensors=tensors, tables=tables)


def save_folds(result: CrossValidationResult, folder: str | Path) -> Path:
    """Writes what there is beside the folds themselves."""
    body = {"folds": len(result.folds), "jobs": result.jobs, "seconds": result.seconds}
    write_sealed(Path(folder) / FOLDS, FOLDS_KIND, body | {"test_scores": [asdict(one) for one in result.test_scores]})
    return Path(folder)


def stored_seconds(folder: Path) -> float | None:
    """How long a cross-validation took that is stored there; None where none is."""
    return float(read_sealed(folder / FOLDS, FOLDS_KIND)["seconds"]) if (folder / FOLDS).exists() else None


def fold_folder(folder: str | Path, number: int) -> Path:
    return Path(folder) / f"fold-{number}"


def load(folder: str | Path) -> GPCMResult | CrossValidationResult:
    """The result that `train` or `save` wrote to a folder; on the CPU."""
    path = as_path(folder, "give the folder of a trained model")
    if not (path / FOLDS).exists():
        if not model_store.is_model(path) and any(path.glob("fold-*")):
            raise InputError(f"{path} holds a cross-validation that is not finished; run the same command again")
        return load_model(path)
    body = read_sealed(path / FOLDS, FOLDS_KIND)
    folds = tuple(load_model(fold_folder(path, number)) for number in range(1, body["folds"] + 1))
    test_scores = tuple(OrdinalScores(**scores) for scores in body["test_scores"])
    return CrossValidationResult.of(folds, test_scores, body["jobs"], body["seconds"])


def load_model(folder: Path) -> GPCMResult:
    """A single model."""
    stored = model_store.load(folder, kind=KIND, version=VERSION, command="brimful gpcm train")
    meta = stored.meta
    try:
        model = DeepGPCM(DeepGPCMConfig(**meta["model"]))
        model.load_state_dict(stored.tensors("weights") or {})
        items, vocabulary = _items(stored.table("items"), model.config.categories, meta["partial_credit"])
        int8, recovery = None, meta["recovery"]
        if (quantized := stored.tensors("int8", optional=True)) is not None:
            int8 = quantize(model)
            int8.load_state_dict(quantized)
        true = {name: value.numpy() for name, value in (stored.tensors("true", optional=True) or {}).items()}
        return GPCMResult(
            model=model.eval(),
            vocabulary=vocabulary,
            items=items,
            held_out=_held_out(stored.table("held-out", optional=True), vocabulary),
            scores=OrdinalScores(**meta["scores"]),
            plan=Plan.from_dict(meta["plan"]),
            recovery=recovery and Recovery(**(recovery | {"beta_r_H": np.array(recovery["beta_r_H"])})),
            true_parameters=TrueParameters(**true) if true else None,
            int8=int8,
            **{name: meta[name] for name in _PLAIN},
        )
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise stored.damaged(error) from error


def _matrix(table: Any, name: str, numbers: range) -> np.ndarray:
    return np.stack([table[f"{name}_{number}"].to_numpy() for number in numbers], axis=1)


def _items(table: Any, categories: int, partial_credit: bool) -> tuple[ItemParameters, Students]:
    beta_QH = _matrix(table, "beta", range(1, categories))
    items = ItemParameters(table["alpha"].to_numpy(), beta_QH, table["asked"].to_numpy())
    names = np.array(table["question"].to_pylist(), dtype=str)
    none = np.zeros(0, np.int32)
    return items, Students(none, none, np.zeros(1, np.int64), np.zeros(0, str), names, categories, partial_credit)


def _held_out(table: Any, vocabulary: Students) -> Predictions:
    """Without predictions where the table was removed, as one may before passing a model on."""
    K = vocabulary.categories
    if table is None:
        shapes = ((0, K), (0,), (0,), (0, K - 1))
        return Predictions(vocabulary, *(np.zeros(shape, np.float32) for shape in shapes))
    number = {name: index for index, name in enumerate(vocabulary.questions.tolist())}
    asked = zip(table["question"].to_pylist(), table["known"].to_pylist(), strict=True)
    begins = np.flatnonzero(np.diff(table["sequence"].to_numpy(), prepend=-1))
    students = replace(
        vocabulary,
        question=np.array([number[name] if known else len(number) for name, known in asked], np.int32),
        response=table["response"].to_numpy().astype(np.int32),
        offsets=np.append(begins, table.num_rows).astype(np.int64),
        ids=np.array(table["student"].take(pa.array(begins)).to_pylist(), dtype=str),
        asked=np.array(table["question"].to_pylist(), dtype=str),
    )
    p_TK, beta_TH = _matrix(table, "p", range(K)), _matrix(table, "beta", range(1, K))
    return Predictions(students, p_TK, table["theta"].to_numpy(), table["alpha"].to_numpy(), beta_TH)
