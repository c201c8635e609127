"""A task that is invalid says why, in one sentence."""

import numpy as np
import pytest

from brimful import gp

from ..helpers.small import fit, rows

X, Y = rows(1, 3, 8)
INF = float("inf")
CAUSES = {
    "a target is infinite": (X[1], np.where(np.arange(8) == 3, INF, Y[1])),
    "an input is infinite": (np.where(np.arange(8)[:, None] == 3, -INF, X[1]), Y[1]),
    "a known noise variance is negative": (X[1], Y[1], -np.eye(8)[2]),
    "a known noise variance is NaN or infinite": (X[1], Y[1], np.where(np.eye(8)[2] > 0, np.nan, 0.1)),
    "the targets vary by more than 1e17; divide them by a constant": (X[1], 1e19 * Y[1]),
    "the targets vary by less than 1e-14; multiply them by a constant": (X[1], 1e-16 * Y[1]),
    "the inputs reach over more than 1e30; divide them by a constant": (1e31 * X[1], Y[1]),
    "the inputs reach over less than 1e-30; multiply them by a constant": (1e-32 * X[1], Y[1]),
}


@pytest.mark.parametrize("sentence", CAUSES)
def test_each_cause_has_its_sentence(sentence: str):
    bad = CAUSES[sentence]
    noise = () if len(bad) == 2 else (np.full(8, 0.01),)
    fitted = fit([(X[0], Y[0], *noise), bad, (X[2], Y[2], *noise)])
    assert fitted.status.tolist() == [0, gp.TaskStatus.INVALID, 0]
    assert fitted.messages == {1: sentence}
