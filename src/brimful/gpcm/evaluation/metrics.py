"""Metrics of predictions of ordered categories.

Legend: T answers, K categories.

Everything that depends only on (answer, prediction) pairs is computed from their K x K table of counts, which is exact
and fast for millions of answers. A metric that is undefined (no answers, or a single class where agreement beyond
chance is measured) is NaN, without a warning.
"""

import math
from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Float, Int

from ...core.base.arguments import as_numbers
from ...core.base.errors import InputError

PREDICTIONS = ("argmax", "mean")


@dataclass(frozen=True, slots=True)
class OrdinalScores:
    """The metrics of some predictions.

    Attributes:
        count: answers scored.
        accuracy: the share predicted exactly.
        within_one: the share predicted at most one category off ("ordinal accuracy").
        qwk: quadratic weighted kappa.
        mae: mean absolute error, in categories.
        tau: Kendall's tau-b.
        spearman: Spearman's rank correlation.
        kappa: Cohen's kappa.
        cross_entropy: mean of -log p(answer), in nats.
        ece: expected calibration error of the most probable category, 10 bins of equal width.
        auc: area under the ROC curve, for K = 2; else NaN.
    """

    count: int
    accuracy: float
    within_one: float
    qwk: float
    mae: float
    tau: float
    spearman: float
    kappa: float
    cross_entropy: float
    ece: float
    auc: float

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:.4g}" for name, value in asdict(self).items() if not math.isnan(value))


def score(p_TK: Float[np.ndarray, "T K"], response_T: Int[np.ndarray, " T"], predict: str = "argmax") -> OrdinalScores:
    """All metrics of some predictions.

    Args:
        p_TK: the probability of each category.
        response_T: the answers.
        predict: the category predicted: "argmax" the most probable, "mean" the expected category, rounded.
    """
    p_TK = as_numbers(p_TK, "probabilities", "(T, K)").numpy()
    response_T = as_numbers(response_T, "responses", "(T,)").numpy()
    if p_TK.shape[:1] != response_T.shape or p_TK.shape[1] < 2:
        raise InputError(f"probabilities have shape {p_TK.shape}, responses {response_T.shape}; give (T, K) and (T,)")
    table_KK = contingency(response_T, predict_categories(p_TK, predict), p_TK.shape[1])
    return OrdinalScores(
        count=len(response_T),
        accuracy=within(table_KK, 0),
        within_one=within(table_KK, 1),
        qwk=kappa(table_KK, 2),
        mae=mae(table_KK),
        tau=kendall(table_KK),
        spearman=spearman(table_KK),
        kappa=kappa(table_KK, 0),
        cross_entropy=cross_entropy(p_TK, response_T),
        ece=ece(p_TK, response_T),
        auc=auc(p_TK[:, 1], response_T) if p_TK.shape[1] == 2 else math.nan,
    )


def predict_categories(p_TK: np.ndarray, how: str = "argmax") -> np.ndarray:
    """The categories that probabilities predict."""
    if how not in PREDICTIONS:
        raise InputError(f"predictions by {how!r}; choose one of {', '.join(PREDICTIONS)}")
    if how == "argmax":
        return p_TK.argmax(1)
    mean_T = p_TK @ np.arange(p_TK.shape[1], dtype=p_TK.dtype)
    return np.clip(np.floor(np.nan_to_num(mean_T) + 0.5), 0, p_TK.shape[1] - 1).astype(np.int64)


def contingency(response_T: np.ndarray, category_T: np.ndarray, categories: int) -> np.ndarray:
    """How often each answer (row) met each prediction (column)."""
    if len(response_T) and not (response_T.min() >= 0 and response_T.max() < categories):
        raise InputError(
            f"responses run from {response_T.min()} to {response_T.max()}; there are {categories} categories"
        )
    pair_T = response_T.astype(np.int64) * categories + category_T
    return np.bincount(pair_T, minlength=categories**2).reshape(categories, categories)


def within(table_KK: np.ndarray, distance: int) -> float:
    """The share of predictions at most `distance` categories off."""
    return _ratio(float(table_KK[_distance(table_KK) <= distance].sum()), float(table_KK.sum()))


def mae(table_KK: np.ndarray) -> float:
    """The mean number of categories predictions are off."""
    return _ratio(float((table_KK * _distance(table_KK)).sum()), float(table_KK.sum()))


def kappa(table_KK: np.ndarray, power: int) -> float:
    """Agreement beyond chance: Cohen's kappa for power 0, quadratic weighted for 2."""
    distance_KK = _distance(table_KK).astype(np.float64)
    weight_KK = distance_KK**power if power else (distance_KK > 0).astype(np.float64)
    chance_KK = np.outer(table_KK.sum(1), table_KK.sum(0)).astype(np.float64)
    expected = float((weight_KK * chance_KK).sum())
    return 1 - _ratio(float((weight_KK * table_KK).sum()) * float(table_KK.sum()), expected)


def kendall(table_KK: np.ndarray) -> float:
    """Kendall's tau-b, with its correction for ties."""
    counts = table_KK.astype(np.float64)
    above = np.cumsum(np.cumsum(counts[::-1, ::-1], 0), 1)[::-1, ::-1]  # all at least as high in both
    left = np.cumsum(np.cumsum(counts[::-1], 0), 1)[::-1]
    concordant = float((counts[:-1, :-1] * above[1:, 1:]).sum())
    discordant = float((counts[:-1, 1:] * left[1:, :-1]).sum())
    total = float(counts.sum())
    pairs = total * (total - 1) / 2
    tied_rows, tied_columns = (float((sums * (sums - 1) / 2).sum()) for sums in (counts.sum(1), counts.sum(0)))
    return _ratio(concordant - discordant, math.sqrt(max(0.0, (pairs - tied_rows) * (pairs - tied_columns))))


def spearman(table_KK: np.ndarray) -> float:
    """The correlation of ranks, ties sharing their mean rank."""
    counts = table_KK.astype(np.float64)
    rows, columns = (_ranks(counts.sum(axis)) for axis in (1, 0))
    covariance = float(rows @ counts @ columns)
    spread = float((counts.sum(1) @ rows**2) * (counts.sum(0) @ columns**2))
    return _ratio(covariance, math.sqrt(spread))


def cross_entropy(p_TK: np.ndarray, response_T: np.ndarray) -> float:
    """The mean of -log p(answer); infinite where an answer had probability 0."""
    if not len(response_T):
        return math.nan
    with np.errstate(divide="ignore"):
        return float(-np.log(p_TK[np.arange(len(response_T)), response_T].astype(np.float64)).mean())


def ece(p_TK: np.ndarray, response_T: np.ndarray, bins: int = 10) -> float:
    """How far confidence and accuracy are apart, on average over bins of confidence of equal width."""
    if not len(response_T):
        return math.nan
    best_T = p_TK.argmax(1)
    confidence_T = p_TK[np.arange(len(best_T)), best_T].astype(np.float64)
    if not np.isfinite(confidence_T).all():
        return math.nan
    bin_T = np.clip(np.ceil(confidence_T * bins) - 1, 0, bins - 1).astype(np.int64)  # bins are open below, closed above
    gap = np.bincount(bin_T, weights=confidence_T - (best_T == response_T), minlength=bins)
    return float(np.abs(gap).sum() / len(best_T))


def auc(p_T: np.ndarray, response_T: np.ndarray) -> float:
    """How often an answer of 1 had a higher predicted probability than an answer of 0, ties counting half."""
    value, bin_T = np.unique(p_T, return_inverse=True)
    ones = np.bincount(bin_T.reshape(-1), weights=response_T, minlength=len(value))
    zeros = np.bincount(bin_T.reshape(-1), weights=1 - response_T, minlength=len(value))
    below = np.cumsum(zeros) - zeros
    return _ratio(float((ones * (below + zeros / 2)).sum()), float(ones.sum() * zeros.sum()))


def _ranks(counts: np.ndarray) -> np.ndarray:
    """The mean rank of each category, centred."""
    ranks = np.cumsum(counts) - counts / 2
    return ranks - counts.sum() / 2


def _distance(table_KK: np.ndarray) -> np.ndarray:
    category = np.arange(len(table_KK))
    return np.abs(category[:, None] - category)


def _ratio(above: float, below: float) -> float:
    return above / below if below else math.nan
