"""The compiled twin against the one in torch."""

import numpy as np
import pytest
import torch
from drawn import TEXTS, problem, thetas, waves
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.gp import _native, scoring
from brimful.gp.tasks import MEANS

WIDE = [("rbf", 2, True), ("matern12", 3, False), ("periodic * linear", 2, True), ("rational_quadratic", 2, True)]
KINDS = [*((text, 1, False) for text in TEXTS), *WIDE]


pytestmark = pytest.mark.usefixtures("one_thread")


@settings(max_examples=60)
@given(
    st.sampled_from(KINDS),
    st.sampled_from(MEANS),
    st.sampled_from([None, "weak"]),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_likelihood_mean_and_slope_are_the_same_anywhere(
    kind: tuple[str, int, bool], mean: str, priors: str | None, with_known: bool, seed: int
):
    text, dimensions, ard = kind
    x, y = waves(seed, 4, 9, dimensions, holes=0.2)
    known = torch.full_like(y, 0.1) if with_known else None
    some = problem(text, x, y, mean, priors=priors, ard=ard, known_TN=known)
    theta = thetas(seed, 4, some.kernel)
    if with_known:
        theta[:, -1] = scoring.NO_NOISE
    starts, rules = (theta[:, None], torch.ones(4, dtype=torch.int64)), scoring.Rules(iterations=0)
    plain = scoring.fit(some.kernel, some.tasks, some.limits, rules, starts)
    native = _native.scoring_fit(some.kernel, some.tasks, some.limits, rules, starts)
    assert torch.equal(native.theta_TP, plain.theta_TP)
    assert torch.equal(native.ending_T, plain.ending_T)
    torch.testing.assert_close(native.nlml_T, plain.nlml_T, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(native.gradient_T, plain.gradient_T, rtol=1e-7, atol=1e-8)
    torch.testing.assert_close(native.beta_TQ, plain.beta_TQ, rtol=1e-6, atol=1e-8)


def test_the_twins_end_in_the_same_place():
    gaps, endings = [], []
    for seed, (text, dimensions, ard) in enumerate(KINDS):
        x, y = waves(seed, 24, 18, dimensions, holes=0.15)
        known = torch.full_like(y, 0.05) if seed % 5 == 0 else None
        some = problem(text, x, y, MEANS[seed % 3], priors=(None, "weak")[seed % 2], ard=ard, known_TN=known)
        pair = [
            fit(some.kernel, some.tasks, some.limits, scoring.Rules(tolerance=1e-8, iterations=300))
            for fit in (_native.scoring_fit, scoring.fit)
        ]
        gaps += (pair[0].nlml_T - pair[1].nlml_T).abs().tolist()
        endings += (pair[0].ending_T == pair[1].ending_T).tolist()
    assert np.isfinite(gaps).all()
    assert np.mean(np.array(gaps) < 1e-6) >= 0.99
    assert np.mean(endings) >= 0.99


def test_threads_and_their_shares_make_no_difference(monkeypatch: pytest.MonkeyPatch):
    some = problem("rbf", *waves(0, 100, 8))
    expected = _native.scoring_fit(some.kernel, some.tasks, some.limits, scoring.Rules())
    monkeypatch.setattr(_native, "_SHARE", 7)
    torch.set_num_threads(3)
    fitted = _native.scoring_fit(some.kernel, some.tasks, some.limits, scoring.Rules())
    assert torch.equal(fitted.theta_TP, expected.theta_TP)
    assert torch.equal(fitted.iterations_T, expected.iterations_T)


def test_what_is_given_is_left_as_it_was():
    some = problem("rbf", *waves(1, 4, 8))
    theta = thetas(1, 4, some.kernel)
    before = theta.clone(), some.tasks.y_TN.clone(), some.limits.low_TP.clone()
    starts = (theta[:, None], torch.ones(4, dtype=torch.int64))
    _native.scoring_fit(some.kernel, some.tasks, some.limits, scoring.Rules(), starts)
    for one, other in zip(before, (theta, some.tasks.y_TN, some.limits.low_TP), strict=True):
        assert torch.equal(one, other)
