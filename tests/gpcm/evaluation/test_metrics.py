"""Metrics against scikit-learn and scipy, and where they cannot be said."""

import math
import warnings

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from brimful import InputError
from brimful.gpcm.evaluation import metrics


def draw(seed: int, count: int, categories: int, ties: bool = False) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    p_TK = generator.dirichlet(np.full(categories, 0.7), count)
    if ties:
        p_TK = np.round(p_TK * 4) + 0.25
        p_TK /= p_TK.sum(1, keepdims=True)
    return p_TK, generator.integers(categories, size=count)


def near(found: float, expected: float) -> bool:
    return (math.isnan(found) and math.isnan(expected)) or math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)


@given(
    st.integers(0, 10**6), st.integers(1, 60), st.integers(2, 6), st.booleans(), st.sampled_from(metrics.PREDICTIONS)
)
def test_as_the_peers_say(seed: int, count: int, categories: int, ties: bool, how: str):
    p_TK, answer = draw(seed, count, categories, ties)
    guess = metrics.predict_categories(p_TK, how)
    found = metrics.score(p_TK, answer, how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {
            "accuracy": sklearn.metrics.accuracy_score(answer, guess),
            "within_one": float((np.abs(answer - guess) <= 1).mean()),
            "mae": sklearn.metrics.mean_absolute_error(answer, guess),
            "tau": scipy.stats.kendalltau(answer, guess)[0],
            "spearman": scipy.stats.spearmanr(answer, guess)[0] if count > 1 else math.nan,
            "cross_entropy": sklearn.metrics.log_loss(answer, p_TK, labels=list(range(categories))),
        }
        labels = list(range(categories))
        if len(set(answer.tolist()) | set(guess.tolist())) > 1:
            expected["qwk"] = sklearn.metrics.cohen_kappa_score(answer, guess, labels=labels, weights="quadratic")
            expected["kappa"] = sklearn.metrics.cohen_kappa_score(answer, guess, labels=labels)
        if categories == 2 and len(set(answer.tolist())) == 2:
            expected["auc"] = sklearn.metrics.roc_auc_score(answer, p_TK[:, 1])
    for name, value in expected.items():
        assert near(getattr(found, name), float(np.asarray(value))), name
    assert found.count == count


def test_calibration_by_hand():
    p_TK = np.array([[0.95, 0.05], [0.95, 0.05], [0.45, 0.55], [0.3, 0.7]])
    # Bin (0.9, 1]: sure 0.95, right 1 of 2. (0.5, 0.6]: 0.55, right. (0.6, 0.7]: 0.7, wrong.
    assert near(metrics.ece(p_TK, np.array([0, 1, 1, 0])), (2 * 0.45 + 0.45 + 0.7) / 4)
    assert metrics.ece(np.array([[1.0, 0.0]]), np.array([0])) == 0


def test_nothing_and_a_single_class_are_nan_in_silence():
    nothing = metrics.score(np.zeros((0, 3)), np.zeros(0, np.int64))
    assert nothing.count == 0
    for name in ("accuracy", "within_one", "qwk", "mae", "tau", "spearman", "kappa", "cross_entropy", "ece", "auc"):
        assert math.isnan(getattr(nothing, name)), name
    alone = metrics.score(np.array([[0.1, 0.9], [0.2, 0.8]]), np.array([1, 1]))
    assert (alone.accuracy, alone.mae) == (1.0, 0.0)
    for name in ("qwk", "tau", "spearman", "kappa", "auc"):
        assert math.isnan(getattr(alone, name)), name
    assert "nan" not in str(alone)


def test_an_answer_with_no_chance_costs_everything():
    assert metrics.cross_entropy(np.array([[1.0, 0.0]]), np.array([1])) == math.inf


def test_the_rounded_mean():
    p_TK = np.array([[0.4, 0.0, 0.3, 0.3], [0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    assert metrics.predict_categories(p_TK).tolist() == [0, 0, 3]
    assert metrics.predict_categories(p_TK, "mean").tolist() == [2, 1, 3]  # 1.5 and 0.5 are rounded up


def test_shapes_that_do_not_fit():
    for p_TK, answer in ((np.zeros(3), np.zeros(3)), (np.zeros((3, 2)), np.zeros(4)), (np.zeros((3, 1)), np.zeros(3))):
        with pytest.raises(InputError, match=r"give .*\(T, K\)"):
            metrics.score(p_TK, answer.astype(np.int64))
    with pytest.raises(InputError, match="responses run from 0 to 5; there are 3"):
        metrics.score(np.full((2, 3), 1 / 3), np.array([0, 5]))
    with pytest.raises(InputError, match="predictions by 'median'"):
        metrics.score(np.full((2, 3), 1 / 3), np.array([0, 1]), "median")
