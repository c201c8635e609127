"""The two parametrizations of a precision matrix: the full lower triangle, or diagonal plus low rank.

A factor is made from a network's output, and gives the mixture what it needs without forming a d x d precision. Both
have the same methods, which `triangular.py` documents.
"""

from .low_rank import LowRank
from .triangular import Triangular

Factor = Triangular | LowRank


def make_factor(name: str, d: int, floor: float, rank: int) -> Factor:
    """The factor of that name, one of `options.FACTORS`."""
    return Triangular(d, floor) if name == "triangle" else LowRank(d, min(rank, d), floor)
