"""How near the fits are to the best that is known: SciPy's from ten starts each, see make_references.py."""

import numpy as np
import pytest

from .helpers import make_many_minima_references
from .helpers.make_references import FILE, KINDS
from .helpers.small import fit


def test_fits_are_as_good_as_those_of_ten_starts():
    with np.load(FILE) as file:
        saved = dict(file)
    ends = np.cumsum(saved["count"])[:-1]
    tasks = list(zip(np.split(saved["x"], ends), np.split(saved["y"], ends), strict=True))
    ours, converged = np.empty(len(tasks)), np.empty(len(tasks), bool)
    for number, text in enumerate(KINDS):
        mine = np.flatnonzero(saved["kind"] == number)
        result = fit([tasks[value] for value in mine], kernel=text, priors=None)
        ours[mine], converged[mine] = result.nlml, result.status == 0
    scales = np.array([np.std(y.astype(float)) for _, y in tasks])  # the references are of targets of variance 1
    worse = np.maximum(0, ours - saved["count"] * np.log(scales) - saved["nlml"])
    assert worse.mean() <= 0.01
    assert (worse <= 0.1).mean() >= 0.99
    assert converged.mean() >= 0.99


@pytest.mark.parametrize(
    ("text", "gap", "near"), [("rbf", 0.01, 0.99), ("matern52", 0.02, 0.95), ("periodic", 0.09, 0.98)]
)
def test_those_of_likelihoods_with_many_local_minima_are_nearly_so(text: str, gap: float, near: float):
    with np.load(make_many_minima_references.FILE) as file:
        x, y, nlml = (file[f"{name}_{text}"].astype(float) for name in ("x", "y", "nlml"))
    fitted = fit(x, y, kernel=text, ard=x.shape[2] > 1, priors=None)
    worse = np.maximum(0, fitted.nlml - y.shape[1] * np.log(y.std(1)) - nlml)
    assert worse.mean() <= gap
    assert (worse <= 0.1).mean() >= near
    assert (fitted.status == 0).mean() >= 0.97


def test_a_noisy_sine_has_its_own_period_and_not_a_multiple_of_it():
    generator = np.random.default_rng(0)
    tasks = [(np.sort(generator.uniform(0, 1, 50)), generator.normal(size=50)) for _ in range(16)]
    x = np.array([points for points, _ in tasks])
    y = np.sin(8 * np.pi * x) + 0.02 * np.array([noise for _, noise in tasks])
    fitted = fit(x, y, kernel="periodic")
    np.testing.assert_allclose(fitted.params["period"], 0.25, rtol=0.01)
