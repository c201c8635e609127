"""Latitude and longitude to metres and back, anywhere on earth."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.locate.physics import tangent_plane


def tensor(*position: float) -> torch.Tensor:
    return torch.tensor(position, dtype=torch.float64)


@given(
    st.floats(-90, 90),
    st.floats(-180, 180),
    st.floats(-200e3, 200e3),
    st.floats(-200e3, 200e3),
)
def test_there_and_back(latitude: float, longitude: float, east: float, north: float):
    origin, point = tensor(latitude, longitude), tensor(east, north)
    position = tangent_plane.from_plane(point, origin)
    assert -90 <= position[0] <= 90 and -180 <= position[1] <= 180
    assert torch.allclose(tangent_plane.to_plane(position, origin), point, atol=1e-6)


def test_a_degree_of_latitude_is_as_long_as_on_the_ellipsoid():
    plane = tangent_plane.to_plane(tensor(45.5, 8.0), tensor(45.0, 8.0))
    assert plane[0] == pytest.approx(0, abs=1e-6)
    assert plane[1] == pytest.approx(55_568.0, abs=5)  # half a degree at 45.25 degrees: 111,136 m per degree


@pytest.mark.parametrize("longitude", [0.0, 179.9999, -180.0, 93.0])
def test_the_date_line_is_no_border(longitude: float):
    origin = tensor(10.0, longitude)
    apart = tangent_plane.to_plane(tensor(10.0, longitude + 0.5), origin)
    wrapped = tangent_plane.to_plane(tensor(10.0, longitude + 0.5 - 360), origin)
    assert torch.allclose(apart, wrapped, atol=1e-6)
    assert apart[0] == pytest.approx(54_818, abs=20)


def test_a_pole_is_a_place_like_any_other():
    square = torch.tensor([[89.9, 0.0], [89.9, 90.0], [89.9, 180.0], [89.9, -90.0]], dtype=torch.float64)
    center = tangent_plane.centroid(square, torch.ones(4, dtype=torch.bool))
    assert center[0] == pytest.approx(90.0, abs=1e-6)
    plane = tangent_plane.to_plane(square, center.expand(4, 2))
    assert torch.allclose(plane.square().sum(1).sqrt(), torch.full((4,), 11_169.0).double(), atol=5)
    assert torch.allclose(plane.sum(0), torch.zeros(2).double(), atol=1e-3)


def test_a_centroid_across_the_date_line_is_between_the_two():
    two = torch.tensor([[0.0, 179.0], [0.0, -179.0]], dtype=torch.float64)
    center = tangent_plane.centroid(two, torch.ones(2, dtype=torch.bool))
    assert abs(float(center[1])) == pytest.approx(180.0)
    assert tangent_plane.centroid(two, torch.zeros(2, dtype=torch.bool)).isnan().all()


def test_what_is_too_far_away_has_no_place_in_the_plane():
    assert tangent_plane.to_plane(tensor(60.0, 8.0), tensor(45.0, 8.0)).isnan().all()


def test_distance_in_the_plane_is_that_through_space_to_a_few_metres():
    origin = tensor(45.0, 8.0)
    position = tangent_plane.from_plane(tensor(60e3, 80e3), origin)
    assert float(tangent_plane.distance(position, origin)) == pytest.approx(math.hypot(60e3, 80e3), abs=5)
