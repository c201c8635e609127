"""How near the fits are to the best that is known: SciPy's from ten starts each, see make_references.py."""

import make_hollow_references as hollows
import numpy as np
import pytest
import torch
from make_references import FILE, KINDS
from small import fit

from brimful.gp._native import scoring_fit
from brimful.gp.kernels import parse
from brimful.gp.priors import limits
from brimful.gp.scoring import CONVERGED, Rules
from brimful.gp.tasks import prepare


def padded(parts: list[np.ndarray]) -> torch.Tensor:
    rows = np.full((len(parts), max(map(len, parts))), np.nan)
    for row, part in zip(rows, parts, strict=True):
        row[: len(part)] = part
    return torch.from_numpy(rows)


def test_fits_are_as_good_as_those_of_ten_starts():
    with np.load(FILE) as file:
        saved = dict(file)
    ends = np.cumsum(saved["count"])[:-1]
    xs, ys = np.split(saved["x"], ends), np.split(saved["y"], ends)
    ours, converged = np.empty(len(ends) + 1), np.empty(len(ends) + 1, bool)
    for number, text in enumerate(KINDS):
        mine = np.flatnonzero(saved["kind"] == number)
        kernel = parse(text)
        x_TN, y_TN = padded([xs[each] for each in mine]), padded([ys[each] for each in mine])
        tasks, units, fate_T = prepare(x_TN[:, :, None], y_TN, kernel, "constant")
        assert (fate_T == 0).all()
        fitted = scoring_fit(kernel, tasks, limits(kernel, units, None, None, False), Rules())
        ours[mine], converged[mine] = fitted.nlml_T.numpy(), (fitted.ending_T == CONVERGED).numpy()
    worse = np.maximum(0, ours - saved["nlml"])
    assert worse.mean() <= 0.01
    assert (worse <= 0.1).mean() >= 0.99
    assert converged.mean() >= 0.99


@pytest.mark.parametrize(
    ("text", "gap", "near"), [("rbf", 0.01, 0.99), ("matern52", 0.02, 0.95), ("periodic", 0.15, 0.95)]
)
def test_those_of_likelihoods_with_many_hollows_are_nearly_so(text: str, gap: float, near: float):
    with np.load(hollows.FILE) as file:
        x, y, nlml = (file[f"{name}_{text}"].astype(float) for name in ("x", "y", "nlml"))
    fitted = fit(x, y, kernel=text, ard=x.shape[2] > 1, priors=None)
    worse = np.maximum(0, fitted.nlml - y.shape[1] * np.log(y.std(1)) - nlml)
    assert worse.mean() <= gap
    assert (worse <= 0.1).mean() >= near
    assert (fitted.status == 0).mean() >= 0.97
