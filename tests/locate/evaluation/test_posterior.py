"""The posterior is right: over simulated recordings, the truth's ranks in it are uniform."""

from dataclasses import replace

import pytest
import torch

from brimful.locate import Scenario, generate, score
from brimful.locate.data.features import Scaling
from brimful.locate.evaluation.posterior import GridPosterior
from brimful.locate.evaluation.predict import over

from ..helpers import SCENARIO, recordings, samples, scaling, uniform_fault

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    "scenario",
    [
        replace(SCENARIO, detection_snr_db=12.0, min_snr_db=14.0),  # many detect nothing
        Scenario(sites="random", receivers=6, inside_share=0.2, shadowing_db=2.0, power_sd_db=4.0, max_gdop=2.0),
    ],
)
def test_ranks_are_uniform(scenario: Scenario):
    made = generate(400, scenario, seed=11)
    own = Scaling.of(made)
    values = over(GridPosterior(own, scenario, 32, 24), own.samples(made), "target", device="cpu", batch_size=100)
    for ranks in (values["rank"][:, 0], values["rank"][:, 1], values["level"]):
        assert uniform_fault(ranks) < 4
    assert float((values["level"] < 0.68).double().mean()) == pytest.approx(0.68, abs=0.06)


@pytest.mark.parametrize(
    "wrong", [{"shadowing_db": 7.0}, {"power_dbm": 14.0}, {"inside_share": 0.05}, {"detection_snr_db": -10.0}]
)
def test_one_that_knows_less_shows_it(wrong: dict[str, float]):
    """Each piece of knowledge counts: without it the ranks are not uniform, or errors are larger."""
    few, truth = samples(200), scaling().position_m * samples(200)["target"]
    right, off = (
        over(GridPosterior(scaling(), replace(SCENARIO, **changed), 24, 20), few, "target", device="cpu")
        for changed in ({}, wrong)
    )
    unlike = max(uniform_fault(ranks) for ranks in (*off["rank"].unbind(1), off["level"]))
    worse = score(off["position"] - truth).rmse_m / score(right["position"] - truth).rmse_m
    assert unlike > 6 or worse > 1.02


def test_the_grid_is_fine_enough():
    few = samples(24)
    coarse, fine = (
        over(GridPosterior(scaling(), SCENARIO, *cells), few, device="cpu") for cells in ((48, 32), (128, 96))
    )
    apart = (coarse["position"] - fine["position"]).norm(dim=1)
    deviation = fine["covariance"].diagonal(dim1=1, dim2=2).sum(1).sqrt()
    assert float((apart / deviation).max()) < 0.06
    assert torch.allclose(coarse["covariance"], fine["covariance"], rtol=0.1, atol=3e6)


def test_it_sees_nothing_but_features():
    """Neither the truth nor the order of receivers changes it."""
    few = samples(6)
    posterior = GridPosterior(scaling(), SCENARIO, 24, 24)
    own = posterior(few)
    moved = posterior({**few, "target": few["target"] + 1})
    flipped = posterior({"features": few["features"].flip(1), "mask": few["mask"].flip(1)})
    assert torch.equal(own["position"], moved["position"])
    assert torch.allclose(own["position"], flipped["position"], atol=1)
    assert recordings().receivers == few["mask"].shape[1]
