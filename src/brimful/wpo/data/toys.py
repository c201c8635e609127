"""Samples of toy distributions in the plane, and of one in six dimensions.

Legend: n points. Every distribution is a few units wide.
"""

import functools
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from ...core.base.arguments import as_count
from ...core.base.errors import ConfigError

Sampler = Callable[[int, np.random.Generator], np.ndarray]


def _polar(radius_n: np.ndarray, angle_n: np.ndarray) -> np.ndarray:
    return np.stack((radius_n * np.cos(angle_n), radius_n * np.sin(angle_n)), axis=1)


def _circles(n: int, rng: np.random.Generator, radii: tuple[float, ...]) -> np.ndarray:
    """Concentric circles."""
    points = _polar(rng.choice(radii, size=n), 2 * np.pi * rng.random(n))
    return 3 * (points + 0.08 * rng.normal(size=(n, 2)))


def swissroll(n: int, rng: np.random.Generator) -> np.ndarray:
    """A widening spiral of one arm."""
    angle_n = 1.5 * np.pi * (1 + 2 * rng.random(n))
    return (_polar(angle_n, angle_n) + rng.normal(size=(n, 2))) / 5


def eight_gaussians(n: int, rng: np.random.Generator) -> np.ndarray:
    """Eight normal distributions around a circle of radius 4."""
    angle_n = rng.integers(8, size=n) * (np.pi / 4)
    return (_polar(np.full(n, 4.0), angle_n) + 0.5 * rng.normal(size=(n, 2))) / 1.414


def pinwheel(n: int, rng: np.random.Generator) -> np.ndarray:
    """Five curved blades."""
    along_n, across_n = 1 + 0.3 * rng.normal(size=n), 0.1 * rng.normal(size=n)
    angle_n = rng.integers(5, size=n) * (2 * np.pi / 5) + 0.25 * np.exp(along_n)
    cosine_n, sine_n = np.cos(angle_n), np.sin(angle_n)
    return 2 * np.stack((along_n * cosine_n - across_n * sine_n, along_n * sine_n + across_n * cosine_n), axis=1)


def moons(n: int, rng: np.random.Generator) -> np.ndarray:
    """Two interleaving half circles."""
    angle_n, lower_n = np.pi * rng.random(n), rng.random(n) < 0.5
    upper = _polar(np.ones(n), angle_n)
    points = np.where(lower_n[:, None], np.array((1.0, 0.5)) - upper, upper)
    return 2 * (points + 0.1 * rng.normal(size=(n, 2))) - np.array((1.0, 0.2))


def two_spirals(n: int, rng: np.random.Generator) -> np.ndarray:
    """Two arms of one and a half turns."""
    angle_n = 3 * np.pi * np.sqrt(rng.random(n))
    arm = _polar(angle_n, np.pi - angle_n) + 0.5 * rng.random((n, 2))
    sign_n = rng.choice((-1.0, 1.0), size=n)
    return sign_n[:, None] * arm / 3 + 0.1 * rng.normal(size=(n, 2))


def checkerboard(n: int, rng: np.random.Generator) -> np.ndarray:
    """Uniform on the eight black fields of a four by four board."""
    column_n = rng.integers(4, size=n)
    row_n = 2 * rng.integers(2, size=n) + column_n % 2
    return 2 * (np.stack((column_n, row_n), axis=1) - 2 + rng.random((n, 2)))


def swissroll_6d(n: int, rng: np.random.Generator) -> np.ndarray:
    """The spiral on an oblique plane in six dimensions, with a little noise in all of them."""
    plane = np.linalg.qr(np.random.default_rng(6).normal(size=(6, 6)))[0][:2]
    return swissroll(n, rng) @ plane + 0.05 * rng.normal(size=(n, 6))


TOYS: dict[str, Sampler] = {
    "swissroll": swissroll,
    "8gaussians": eight_gaussians,
    "pinwheel": pinwheel,
    "circles": functools.partial(_circles, radii=(1.0, 0.5)),
    "moons": moons,
    "2spirals": two_spirals,
    "checkerboard": checkerboard,
    "rings": functools.partial(_circles, radii=(1.0, 0.75, 0.5, 0.25)),
    "swissroll6d": swissroll_6d,
}


def toy(name: str, n: int, seed: int = 0) -> Float[np.ndarray, "n d"]:
    """Samples of a toy distribution by its name; the same for the same seed.

    Example:
        >>> toy("8gaussians", 3).shape
        (3, 2)
    """
    n = as_count(n, "n", 0)
    if not isinstance(name, str) or name not in TOYS:
        raise ConfigError(f"there is no toy distribution {name!r}; there are {', '.join(TOYS)}")
    return TOYS[name](n, np.random.default_rng(seed)).astype(np.float32)
