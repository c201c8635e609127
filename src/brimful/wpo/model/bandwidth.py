"""The length scales of a model, from its centers alone.

Legend: K centers, M of them that are evaluated, d dimensions.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

_EVALUATED = 512
_MIN_STD = 1e-3  # of an axis, relative to the others
_CANDIDATES = torch.logspace(math.log10(0.25), math.log10(32), 40, dtype=torch.float64).tolist()


def bandwidth(centers_Kd: Float[Tensor, "K d"]) -> Float[Tensor, ""]:
    """The bandwidth of a kernel density estimate on the centers, by leave-one-out likelihood.

    Training that starts much narrower than that overshoots, to widths at which the loss is flat. Duplicates of a center
    are left out; where all centers are equal, or there is one, the bandwidth is 1.
    """
    K, d = centers_Kd.shape
    evaluated_Md = centers_Kd[:: max(1, K // _EVALUATED)][:_EVALUATED].double()
    distance_MK = torch.cdist(evaluated_Md, centers_Kd.double(), compute_mode="donot_use_mm_for_euclid_dist")
    square_MK = distance_MK.masked_fill_(distance_MK == 0, torch.inf).square_()
    nearest_M = square_MK.min(1).values
    if not nearest_M.isfinite().any():
        return centers_Kd.new_ones(())
    typical = float((nearest_M[nearest_M.isfinite()].median() / d).sqrt())

    def likelihood(width: float) -> float:
        return float((square_MK / (-2 * width**2)).logsumexp(1).nanmean()) - d * math.log(width)

    return centers_Kd.new_tensor(max((typical * factor for factor in _CANDIDATES), key=likelihood))


def axis_std(rows_Kd: Float[Tensor, "K d"]) -> Float[Tensor, " d"]:
    """The standard deviation along each axis, at least a thousandth of their root mean square; 1 where all rows are
    equal."""
    std_d = rows_Kd.std(0, correction=0)
    rms = std_d.square().mean().sqrt()
    return torch.where(std_d > _MIN_STD * rms, std_d, _MIN_STD * rms) if rms > 0 else torch.ones_like(std_d)


def overall_std(rows_Kd: Float[Tensor, "K d"]) -> Float[Tensor, ""]:
    """The standard deviation over all axes together; 1 where all rows are equal."""
    std = (rows_Kd - rows_Kd.mean(0)).square().mean().sqrt()
    return torch.where(std > 0, std, torch.ones_like(std))
