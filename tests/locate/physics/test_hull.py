"""Convex hulls, against SciPy's."""

import pytest
import torch
from scipy.spatial import ConvexHull

from brimful.locate.physics import hull


def points(count: int, receivers: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(count, receivers, generator=generator) < 0.7
    mask[:, :3] = True
    return torch.randn(count, receivers, 2, generator=generator).double(), mask


@pytest.mark.parametrize("receivers", [3, 6, 15])
def test_corners_and_area_are_those_of_scipy(receivers: int):
    sets, mask = points(40, receivers)
    corners = hull.convex_hull(sets, mask)
    for own, one, there, area in zip(corners, sets, mask, hull.area(corners), strict=True):
        peer = ConvexHull(one[there].numpy())
        assert float(area) == pytest.approx(peer.volume)
        expected = {tuple(corner) for corner in one[there][peer.vertices].tolist()}
        assert {tuple(corner) for corner in own.tolist()} == expected


def test_points_sampled_inside_are_inside_with_equal_density():
    sets, mask = points(1, 8)
    corners = hull.convex_hull(sets, mask)
    uniform = torch.rand(20_000, 3, generator=torch.Generator().manual_seed(1)).double()
    sampled = hull.sample_inside(corners.expand(20_000, -1, -1), uniform)
    assert hull.inside(corners, sampled[None] * 0.999999 + 1e-6 * sampled.mean(0)).all()
    low, high = corners[0].min(0).values, corners[0].max(0).values
    box = low + (high - low) * torch.rand(200_000, 2, generator=torch.Generator().manual_seed(2)).double()
    kept = box[hull.inside(corners, box[None])[0]]
    assert torch.allclose(sampled.mean(0), kept.mean(0), atol=0.03)
    assert torch.allclose(sampled.T.cov(), kept.T.cov(), atol=0.03)


def test_hulls_without_area_and_without_points():
    line = torch.tensor([[[0.0, 0], [1, 1], [2, 2], [2, 2]]]).double()
    assert float(hull.area(hull.convex_hull(line, torch.ones(1, 4, dtype=torch.bool)))) == 0
    assert hull.convex_hull(line, torch.zeros(1, 4, dtype=torch.bool)).isnan().all()
