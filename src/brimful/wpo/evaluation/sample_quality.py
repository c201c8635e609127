"""How near draws are to data, and whether they are copies of it.

Legend: n, m rows, d dimensions, J directions.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

_AT_ONCE = 2**24  # distances held at once


def sliced_wasserstein(
    x_nd: Float[Tensor, "n d"], y_md: Float[Tensor, "m d"], directions: int = 256, seed: int = 0
) -> float:
    """The sliced Wasserstein distance: along random directions, always the same for one seed, the root of the mean
    squared distance between equal quantiles."""
    generator = torch.Generator().manual_seed(seed)
    towards_Jd = torch.nn.functional.normalize(
        torch.randn(directions, x_nd.shape[1], generator=generator, dtype=torch.float64), dim=1
    )
    count = min(len(x_nd), len(y_md))
    at_q = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    sides = [_quantiles((rows.double().cpu() @ towards_Jd.mT).sort(0).values, at_q) for rows in (x_nd, y_md)]
    return float((sides[0] - sides[1]).square().mean().sqrt())


def _quantiles(sorted_nJ: Tensor, at_q: Tensor) -> Tensor:
    place_q = at_q * len(sorted_nJ) - 0.5
    low_q = place_q.floor().clamp(0, len(sorted_nJ) - 1).long()
    high_q = (low_q + 1).clamp(max=len(sorted_nJ) - 1)
    share_q = (place_q - low_q).clamp(0, 1)[:, None]
    return sorted_nJ[low_q] * (1 - share_q) + sorted_nJ[high_q] * share_q


def nearest(x_nd: Float[Tensor, "n d"], among_md: Float[Tensor, "m d"]) -> tuple[Tensor, Tensor]:
    """The distance of each row to the nearest of others, and which that is."""
    rows = max(1, _AT_ONCE // max(1, len(among_md)))
    found = [torch.cdist(part, among_md).min(1) for part in x_nd.split(rows)]
    return torch.cat([each.values for each in found]), torch.cat([each.indices for each in found])


@dataclass(frozen=True, slots=True)
class Neighbours:
    """How near draws come to the rows that a model was made of, against rows that it never saw.

    Attributes:
        ratio: median distance of draws to the nearest such row, over that of held-out rows: 1 for draws that are as new
            as held-out data, 0 for copies.
        copies: the share of draws that are nearer to one than all but a hundredth of the held-out rows.
    """

    ratio: float
    copies: float


def neighbours(
    drawn_nd: Float[Tensor, "n d"], known_md: Float[Tensor, "m d"], held_out_kd: Float[Tensor, "k d"]
) -> Neighbours:
    """Compares draws with held-out rows by their distance to known ones."""
    own, fresh = (nearest(rows, known_md)[0].double() for rows in (drawn_nd, held_out_kd))
    middle = float(fresh.median())
    near = torch.quantile(fresh[:1_000_000], 0.01)
    return Neighbours(float(own.median()) / middle if middle > 0 else float("nan"), float((own < near).double().mean()))
