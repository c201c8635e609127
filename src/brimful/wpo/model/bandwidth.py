"""Lengths that a model measures its data by, from the centers alone.

Legend: K centers, M of them that are looked at, d dimensions.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

_LOOKED_AT = 512
_LEAST = 1e-3  # of an axis's spread, against the others'
_TRIED = torch.logspace(math.log10(0.25), math.log10(32), 40, dtype=torch.float64).tolist()


def bandwidth(centers_Kd: Float[Tensor, "K d"]) -> Float[Tensor, ""]:
    """The width of a kernel density estimate on the centers under which each is likeliest given the others.

    Training that begins much narrower than that overshoots, to widths at which the loss is flat. Where centers lie on
    each other that counts for nothing; where all do, or there is one, it is 1.
    """
    K, d = centers_Kd.shape
    some_Md = centers_Kd[:: max(1, K // _LOOKED_AT)][:_LOOKED_AT].double()
    distance_MK = torch.cdist(some_Md, centers_Kd.double(), compute_mode="donot_use_mm_for_euclid_dist")
    square_MK = distance_MK.masked_fill_(distance_MK == 0, torch.inf).square_()
    nearest_M = square_MK.min(1).values
    if not nearest_M.isfinite().any():
        return torch.ones((), dtype=centers_Kd.dtype, device=centers_Kd.device)
    typical = float((nearest_M[nearest_M.isfinite()].median() / d).sqrt())

    def likelihood(width: float) -> float:
        return float((square_MK / (-2 * width**2)).logsumexp(1).nanmean()) - d * math.log(width)

    best = max((typical * each for each in _TRIED), key=likelihood)
    return torch.tensor(best, dtype=centers_Kd.dtype, device=centers_Kd.device)


def spreads(rows_Kd: Float[Tensor, "K d"]) -> Float[Tensor, " d"]:
    """The standard deviation along each axis, or a little where rows do not differ along it; 1 where they do not at
    all."""
    along_d = rows_Kd.std(0, correction=0)
    most = along_d.square().mean().sqrt()
    return torch.where(along_d > _LEAST * most, along_d, _LEAST * most) if most > 0 else torch.ones_like(along_d)


def spread_of(rows_Kd: Float[Tensor, "K d"]) -> Float[Tensor, ""]:
    """The standard deviation over all axes together; 1 where all rows are the same."""
    spread = (rows_Kd - rows_Kd.mean(0)).square().mean().sqrt()
    return torch.where(spread > 0, spread, torch.ones_like(spread))
