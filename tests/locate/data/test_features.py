"""Features are a change of units, and nothing else."""

import pytest
import torch

from brimful.locate import Scenario
from brimful.locate.data.features import DETECTED, EAST, SNR, Scaling, sample_bytes
from brimful.locate.physics import tangent_plane

from ..helpers import recordings


def test_they_are_scaled_and_masked():
    some = recordings()
    samples = Scaling.of(some).samples(some)
    features, mask = samples["features"], samples["mask"]
    assert features.dtype == torch.float32 and features.shape == (*mask.shape, 6)
    assert float(features[..., :3].min()) >= 0 and float(features[..., :3].max()) <= 1
    assert torch.equal(features[..., DETECTED] > 0, some.detected)
    assert not features[~mask].any() and not features[..., SNR][~some.detected].any()
    assert float(features[mask][:, EAST : EAST + 2].square().mean()) == pytest.approx(1, rel=1e-5)
    assert features.isfinite().all() and samples["target"].isfinite().all()


def test_what_was_measured_comes_back():
    some, scenario = recordings(), Scenario()
    scaling = Scaling.of(some.select(slice(0, 1000)))
    samples = scaling.samples(some)
    level = scaling.levels(samples["features"], scenario.bandwidth_db)
    expected = some.psd_dbm_hz + scenario.bandwidth_db
    assert torch.allclose(level[some.detected], expected[some.detected].float(), atol=1e-3)
    position = scaling.positions(samples["target"], samples["centroid"])
    assert float(tangent_plane.distance(position, some.transmitter).max()) < 0.05  # metres, in float32


def test_the_bytes_of_a_sample():
    some = recordings()
    samples = Scaling.of(some).samples(some)
    total = sum(value.numel() * value.element_size() for value in samples.values())
    assert total == len(some) * sample_bytes(some.receivers)
