"""Points that are drawn from shapes in the plane, and from one in six dimensions, to see what a model learns.

Legend: n points. Every shape is a few units wide.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from ...core.base.errors import ConfigError

Draw = Callable[[int, np.random.Generator], np.ndarray]


def swissroll(n: int, chance: np.random.Generator) -> np.ndarray:
    """A spiral of one arm that widens."""
    angle_n = 1.5 * np.pi * (1 + 2 * chance.random(n))
    return (_polar(angle_n, angle_n) + chance.normal(size=(n, 2))) / 5


def eight_gaussians(n: int, chance: np.random.Generator) -> np.ndarray:
    """Eight normal distributions around a circle of radius 4."""
    angle_n = chance.integers(8, size=n) * (np.pi / 4)
    return (_polar(np.full(n, 4.0), angle_n) + 0.5 * chance.normal(size=(n, 2))) / 1.414


def pinwheel(n: int, chance: np.random.Generator) -> np.ndarray:
    """Five blades, bent the more the farther they reach."""
    along_n, across_n = 1 + 0.3 * chance.normal(size=n), 0.1 * chance.normal(size=n)
    turn_n = chance.integers(5, size=n) * (2 * np.pi / 5) + 0.25 * np.exp(along_n)
    cosine_n, sine_n = np.cos(turn_n), np.sin(turn_n)
    return 2 * np.stack((along_n * cosine_n - across_n * sine_n, along_n * sine_n + across_n * cosine_n), axis=1)


def circles(n: int, chance: np.random.Generator) -> np.ndarray:
    """A circle inside another."""
    return _rings(n, chance, (1.0, 0.5))


def rings(n: int, chance: np.random.Generator) -> np.ndarray:
    """Four circles, one inside the other."""
    return _rings(n, chance, (1.0, 0.75, 0.5, 0.25))


def moons(n: int, chance: np.random.Generator) -> np.ndarray:
    """Two half circles that reach into each other."""
    angle_n, lower_n = np.pi * chance.random(n), chance.random(n) < 0.5
    upper = _polar(np.ones(n), angle_n)
    points = np.where(lower_n[:, None], np.array((1.0, 0.5)) - upper, upper)
    return 2 * (points + 0.1 * chance.normal(size=(n, 2))) - np.array((1.0, 0.2))


def two_spirals(n: int, chance: np.random.Generator) -> np.ndarray:
    """Two arms of one and a half turns."""
    angle_n = 3 * np.pi * np.sqrt(chance.random(n))
    arm = _polar(angle_n, np.pi - angle_n) + 0.5 * chance.random((n, 2))
    side_n = chance.choice((-1.0, 1.0), size=n)
    return side_n[:, None] * arm / 3 + 0.1 * chance.normal(size=(n, 2))


def checkerboard(n: int, chance: np.random.Generator) -> np.ndarray:
    """The eight black fields of a board of four by four, evenly."""
    column_n = chance.integers(4, size=n)
    row_n = 2 * chance.integers(2, size=n) + column_n % 2
    return 2 * (np.stack((column_n, row_n), axis=1) - 2 + chance.random((n, 2)))


def swissroll_6d(n: int, chance: np.random.Generator) -> np.ndarray:
    """The spiral on a plane that lies askew in six dimensions, a little off it in all of them."""
    askew = np.linalg.qr(np.random.default_rng(6).normal(size=(6, 6)))[0][:2]
    return swissroll(n, chance) @ askew + 0.05 * chance.normal(size=(n, 6))


TOYS: dict[str, Draw] = {
    "swissroll": swissroll,
    "8gaussians": eight_gaussians,
    "pinwheel": pinwheel,
    "circles": circles,
    "moons": moons,
    "2spirals": two_spirals,
    "checkerboard": checkerboard,
    "rings": rings,
    "swissroll6d": swissroll_6d,
}


def toy(name: str, n: int, seed: int = 0) -> Float[np.ndarray, "n d"]:
    """Points of a shape by its name; the same for the same seed.

    Example:
        >>> toy("8gaussians", 3).shape
        (3, 2)
    """
    if name not in TOYS:
        raise ConfigError(f"there is no shape {name!r}; there are {', '.join(TOYS)}")
    return TOYS[name](n, np.random.default_rng(seed)).astype(np.float32)


def _polar(radius_n: np.ndarray, angle_n: np.ndarray) -> np.ndarray:
    return np.stack((radius_n * np.cos(angle_n), radius_n * np.sin(angle_n)), axis=1)


def _rings(n: int, chance: np.random.Generator, radii: tuple[float, ...]) -> np.ndarray:
    points = _polar(chance.choice(radii, size=n), 2 * np.pi * chance.random(n))
    return 3 * (points + 0.08 * chance.normal(size=(n, 2)))
