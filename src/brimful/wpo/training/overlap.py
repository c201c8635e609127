"""Rows that are in two of the parts that must be disjoint: centers, training rows, held-out rows.

Legend: N training rows, M held out, K centers, d dimensions.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.base.errors import BrimfulWarning, InputError
from ..model.score_model import ScoreModel

_ADVICE = "wpo.dataset(rows) drops duplicates and splits rows into disjoint centers, training and held-out rows"


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many rows were left out.

    Attributes:
        train: training rows that equal a center.
        held_out: held-out rows that equal a center or a training row.
    """

    train: int = 0
    held_out: int = 0


def without_overlap(model: ScoreModel, train_Nd: Tensor, held_out_Md: Tensor) -> tuple[Tensor, Tensor, Overlap]:
    """The training rows that are no centers, and the held-out rows that are neither centers nor training rows; with a
    warning that says how many there were of others.

    Rows are equal where all their numbers are, in the model's precision and units.

    Raises:
        InputError: no training row, or no held-out row, is left.
    """
    centers = set(_keys(model.standardized_Kd))
    train, held_out = (list(_keys(model.standardize(rows))) for rows in (train_Nd, held_out_Md))
    fresh_N = torch.tensor([key not in centers for key in train])
    known = centers.union(train)
    fresh_M = torch.tensor([key not in known for key in held_out])
    overlap = Overlap(int((~fresh_N).sum()), int((~fresh_M).sum()))
    if overlap.train:
        what = f"{overlap.train} of {len(train)} training rows equal a center, where the likelihood has no upper bound"
        if not fresh_N.any():
            raise InputError(f"{what}: no row is left to train on. Use other rows for the centers: {_ADVICE}")
        warnings.warn(f"{what}; they are not trained on. {_ADVICE}", BrimfulWarning, stacklevel=4)
    if overlap.held_out:
        what = f"{overlap.held_out} of {len(held_out)} held-out rows equal a center or a training row"
        if not fresh_M.any():
            raise InputError(f"{what}: no row is left to evaluate on. Hold other rows out: {_ADVICE}")
        warnings.warn(f"{what}; the scores are of the other rows. {_ADVICE}", BrimfulWarning, stacklevel=4)
    return train_Nd[fresh_N], held_out_Md[fresh_M], overlap


def _keys(rows: Tensor) -> Iterable[bytes]:
    """Of each row its bytes, which are equal where the numbers are."""
    return (row.tobytes() for row in (rows.detach().cpu() + 0.0).numpy())  # -0 equals 0
