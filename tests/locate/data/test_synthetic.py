"""Simulated recordings."""

from dataclasses import fields, replace

import pytest
import torch

from brimful import ConfigError
from brimful.locate import Recordings, Scenario, generate
from brimful.locate.data import synthetic
from brimful.locate.data.features import EAST, NORTH, Scaling
from brimful.locate.physics import hull, tangent_plane

from ..helpers import recordings


def equal(one: Recordings, two: Recordings) -> bool:
    names = [field.name for field in fields(one) if field.name != "names"]
    return all(torch.equal(getattr(one, name).nan_to_num(-7), getattr(two, name).nan_to_num(-7)) for name in names)


def test_the_same_samples_whatever_is_made_at_a_time(monkeypatch: pytest.MonkeyPatch):
    some = recordings()
    assert equal(generate(300), some.select(slice(0, 300)))
    monkeypatch.setattr(synthetic, "_AHEAD", 1)
    assert equal(generate(len(some)), some)
    assert not equal(generate(300, seed=1), some.select(slice(0, 300)))


def test_what_is_rejected_is_not_there():
    some, scenario = recordings(), Scenario()
    assert int(some.detected.sum(1).min()) == 3
    assert float(some.gdop.max()) <= scenario.max_gdop
    assert float(some.mean_snr_db.min()) >= scenario.min_snr_db
    assert float(some.snr_db[some.detected].min()) >= scenario.detection_snr_db
    assert some.snr_db[~some.detected].isnan().all()
    assert not some.faults().any()
    assert torch.allclose(some.with_gdop().gdop, some.gdop, rtol=1e-3)


def test_levels_follow_free_space_loss():
    """20 dB for ten times the distance, with the noise of the scenario about it. Weak ones are left out, since only the
    stronger of them are detected."""
    some, scenario = recordings(), Scenario()
    away = tangent_plane.distance(some.positions, some.transmitter[:, None].expand_as(some.positions))
    level = some.psd_dbm_hz.double() + scenario.bandwidth_db
    expected = scenario.power_dbm - scenario.loss_at_1_m - 20 * torch.log10(away)
    near = some.detected & (expected - scenario.noise_floor_dbm > scenario.detection_snr_db + 15)
    error = (level - expected)[near]
    assert float(error.mean()) == pytest.approx(0, abs=0.3)
    total = (scenario.level_sd_db**2 + scenario.power_sd_db**2) ** 0.5
    assert float(error.std()) == pytest.approx(total, rel=0.05)


@pytest.mark.parametrize("where", [(89.7, 10.0), (-90.0, 0.0), (12.0, 180.0), (-17.0, -179.8)])
def test_the_poles_and_the_date_line_are_like_anywhere_else(where: tuple[float, float]):
    some = generate(200, replace(Scenario(), latitude=where[0], longitude=where[1]))
    scaling = Scaling.of(some)
    samples = scaling.samples(some)
    apart = (samples["features"][..., EAST : NORTH + 1] - samples["target"][:, None]).norm(dim=-1) * scaling.position_m
    away = tangent_plane.distance(some.positions, some.transmitter[:, None].expand_as(some.positions))
    assert torch.allclose(apart[some.mask].double(), away[some.mask], atol=20)  # metres
    assert float(away[some.mask].max()) < 150e3
    assert not some.faults().any()
    assert torch.allclose(some.with_gdop().gdop, some.gdop, rtol=1e-3)
    assert float(scaling.position_m) == pytest.approx(Scaling.of(recordings()).position_m, rel=0.02)


def test_random_sites_are_others_in_every_recording():
    some = generate(200, Scenario(sites="random", receivers=15, availability=0.6))
    assert len(some.positions[some.mask].unique(dim=0)) == int(some.mask.sum())
    assert int(some.mask.sum(1).min()) >= 3


def test_about_seven_in_ten_are_inside_the_hull():
    """Somewhat more than before those outside are rejected more often."""
    some = recordings()
    centroid = some.centroid
    plane = tangent_plane.to_plane(some.positions, centroid[:, None].expand_as(some.positions))
    inside = hull.inside(
        hull.convex_hull(plane, some.mask), tangent_plane.to_plane(some.transmitter, centroid)[:, None]
    )
    assert 0.7 <= float(inside.double().mean()) <= 0.8


def test_a_scenario_that_nothing_passes_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(synthetic, "_HOPELESS", 2)
    with pytest.raises(ConfigError, match="all were rejected"):
        generate(10, Scenario(max_gdop=0.2))
    with pytest.raises(ConfigError, match="which no receiver reaches"):
        Scenario(min_snr_db=200)
