"""Tasks of hundreds and thousands of points, which batched linear algebra fits: no start of SciPy's ends lower."""

import numpy as np
import pytest
from scipy.optimize import minimize

from .helpers.make_references import LIMITS, objective
from .helpers.small import fit


@pytest.mark.parametrize(
    ("points", "starts"),
    [
        (120, [(0.0, -2.0, -3.0), (0.0, -4.0, -5.0)]),
        pytest.param(450, [(0.0, -2.0, -3.0), (0.0, -4.0, -5.0)], marks=pytest.mark.soak),
        pytest.param(2000, [], marks=pytest.mark.soak),
    ],
)
def test_no_start_ends_lower(points: int, starts: list[tuple[float, float, float]]):
    generator = np.random.default_rng(points)
    x = np.sort(generator.uniform(0, 1, points))
    x = (x - x[0]) / np.ptp(x)
    y = np.sin(20 * x) + x * np.cos(7 * x) + 0.2 * generator.normal(size=points)
    y = (y - y.mean()) / y.std()
    fitted = fit(x[None], y[None], priors=None)
    assert fitted.converged.all()
    ours = np.log([fitted.params[name][0] for name in ("variance", "lengthscale", "noise")])
    apart = np.abs(x[:, None] - x)
    assert fitted.nlml[0] == pytest.approx(objective(ours, "rbf", apart, y)[0], abs=1e-6)
    ends = [
        minimize(objective, start, ("rbf", apart, y), "L-BFGS-B", jac=True, bounds=LIMITS).fun
        for start in (ours, *starts)
    ]
    assert fitted.nlml[0] <= min(ends) + 0.01
