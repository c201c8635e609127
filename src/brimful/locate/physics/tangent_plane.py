"""Positions as metres east and north of a point: the plane that touches the WGS84 ellipsoid there.

A point is projected along the plane's normal. The way back solves a quadratic for the height above the plane at which
the ellipsoid lies, so it is exact; both work in geocentric coordinates, where neither the date line nor a pole is
special. Within 100 km distances in the plane are right to 5 m; beyond 1,000 km nothing is projected.

Legend: ... any leading axes; positions are (latitude, longitude) in degrees.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

_A, _F = 6_378_137.0, 1 / 298.257223563
_E2 = _F * (2 - _F)  # the squared eccentricity
_B2 = _A**2 * (1 - _E2)
FARTHEST = 1_000_000.0
"""Metres from the origin beyond which the plane says nothing useful."""


def geocentric(position: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b 3"]:
    """Points on the ellipsoid as x, y, z in metres from the center of the earth."""
    latitude, longitude = torch.deg2rad(position.double()).unbind(-1)
    across = _A / torch.sqrt(1 - _E2 * latitude.sin().square())
    flat = across * latitude.cos()
    return torch.stack((flat * longitude.cos(), flat * longitude.sin(), across * (1 - _E2) * latitude.sin()), -1)


def geodetic(point: Float[Tensor, "*b 3"]) -> Float[Tensor, "*b 2"]:
    """Points on the ellipsoid as latitude and longitude, the latter from -180 to 180."""
    x, y, z = point.unbind(-1)
    latitude = torch.atan2(z, (1 - _E2) * torch.hypot(x, y))
    return torch.rad2deg(torch.stack((latitude, torch.atan2(y, x)), -1))


def centroid(position: Float[Tensor, "*b R 2"], mask: Tensor) -> Float[Tensor, "*b 2"]:
    """The middle of the positions that a mask names: their mean in space, brought to the surface. NaN where it names
    none."""
    weight = mask.double().unsqueeze(-1)
    mean = torch.where(weight > 0, geocentric(position), 0.0).sum(-2) / weight.sum(-2)
    x, y, z = mean.unbind(-1)
    # Along the line from the center of the earth: the ellipsoid stretched to a sphere, as near as a centroid needs.
    scale = 1 / torch.sqrt((x / _A).square() + (y / _A).square() + z.square() / _B2)
    return geodetic(mean * scale.unsqueeze(-1))


def to_plane(position: Float[Tensor, "*b 2"], origin: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b 2"]:
    """Metres east and north of the origin; NaN where the point is more than 1,000 km away."""
    apart = geocentric(position) - geocentric(origin)
    east, north, _ = _axes(origin)
    plane = torch.stack(((apart * east).sum(-1), (apart * north).sum(-1)), -1)
    return torch.where((apart.square().sum(-1) <= FARTHEST**2).unsqueeze(-1), plane, math.nan)


def from_plane(plane: Float[Tensor, "*b 2"], origin: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b 2"]:
    """Latitude and longitude of points in the plane of an origin."""
    east, north, up = _axes(origin)
    x, y = plane.double().unsqueeze(-1).unbind(-2)
    base = geocentric(origin) + x * east + y * north
    # base + h up lies on the ellipsoid: a h^2 + 2 b h + c = 0, of which the root nearer to the plane is taken.
    shape = torch.tensor([1 / _A**2, 1 / _A**2, 1 / _B2], dtype=torch.float64, device=base.device)
    a, b = (up.square() * shape).sum(-1), (up * base * shape).sum(-1)
    c = (base.square() * shape).sum(-1) - 1
    height = -c / (b + torch.sqrt(b.square() - a * c))
    return geodetic(base + height.unsqueeze(-1) * up)


def distance(one: Float[Tensor, "*b 2"], two: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b"]:
    """Metres between positions, straight through space; over 100 km a metre less than along the surface."""
    return (geocentric(one) - geocentric(two)).square().sum(-1).sqrt()


def _axes(origin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The unit vectors to the east, to the north and up."""
    latitude, longitude = torch.deg2rad(origin.double()).unbind(-1)
    sin, cos = latitude.sin(), latitude.cos()
    east = torch.stack((-longitude.sin(), longitude.cos(), torch.zeros_like(sin)), -1)
    north = torch.stack((-sin * longitude.cos(), -sin * longitude.sin(), cos), -1)
    up = torch.stack((cos * longitude.cos(), cos * longitude.sin(), sin), -1)
    return east, north, up
