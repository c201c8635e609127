"""How close samples are to data, and whether they are copies of it.

Legend: n, m rows, d dimensions, J directions, q quantiles.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

_MAX_DISTANCES = 2**24  # held at once


def sliced_wasserstein(
    x_nd: Float[Tensor, "n d"], y_md: Float[Tensor, "m d"], directions: int = 256, seed: int = 0
) -> float:
    """The sliced Wasserstein distance: the root mean squared difference of equal quantiles along random directions,
    which are the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    direction_Jd = torch.nn.functional.normalize(
        torch.randn(directions, x_nd.shape[1], generator=generator, dtype=torch.float64), dim=1
    )
    count = min(len(x_nd), len(y_md))
    level_q = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    x_qJ, y_qJ = (_quantiles((rows.double().cpu() @ direction_Jd.mT).sort(0).values, level_q) for rows in (x_nd, y_md))
    return float((x_qJ - y_qJ).square().mean().sqrt())


def _quantiles(sorted_nJ: Tensor, level_q: Tensor) -> Tensor:
    index_q = level_q * len(sorted_nJ) - 0.5
    low_q = index_q.floor().clamp(0, len(sorted_nJ) - 1).long()
    high_q = (low_q + 1).clamp(max=len(sorted_nJ) - 1)
    weight_q = (index_q - low_q).clamp(0, 1)[:, None]
    return sorted_nJ[low_q] * (1 - weight_q) + sorted_nJ[high_q] * weight_q


def nearest_neighbors(
    x_nd: Float[Tensor, "n d"], reference_md: Float[Tensor, "m d"]
) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"]]:
    """The distance of each row to the nearest reference row, and the index of that."""
    rows = max(1, _MAX_DISTANCES // max(1, len(reference_md)))
    minima = [torch.cdist(part, reference_md).min(1) for part in x_nd.split(rows)]
    return torch.cat([minimum.values for minimum in minima]), torch.cat([minimum.indices for minimum in minima])


def memorization(
    sample_distance_n: Float[Tensor, " n"], held_out_distance_m: Float[Tensor, " m"]
) -> tuple[float, float]:
    """Whether samples are copies, by the distances of samples and of held-out rows to the nearest row that a model was
    made from.

    Returns:
        The ratio of the median distances: 1 for samples as new as held-out data, 0 for copies. And the memorization
        rate: the fraction of samples that are closer than all but 1% of the held-out rows.
    """
    own_n, fresh_m = sample_distance_n.double(), held_out_distance_m.double()
    median = float(fresh_m.median())
    ratio = float(own_n.median()) / median if median > 0 else float("nan")
    return ratio, float((own_n < torch.quantile(fresh_m[:1_000_000], 0.01)).double().mean())
