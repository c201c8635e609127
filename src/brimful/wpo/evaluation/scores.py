"""How good a trained model is on rows that it never saw, whether its samples are copies of data, and the rows that its
report shows.

Legend: N training rows and centers, M held out, n samples, m rows, i images, d dimensions, J directions, q quantiles.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...core.base.arguments import as_numbers
from ...core.base.errors import InputError
from ..model.score_model import ScoreModel

_MAX_ROWS, _IMAGES = 2000, 24


@dataclass(frozen=True, slots=True)
class Scores:
    """Of a model, on held-out rows.

    Attributes:
        loss: that of implicit score matching, the mean of 2 tr(grad s) + |s|^2, in standardized units.
        log_likelihood: the mean log-density, in nats.
        sliced_wasserstein: the distance of as many samples to the held-out rows.
        neighbor_distance_ratio: the median distance of samples to the nearest training row or center, over that of
            held-out rows.
        memorization_rate: the fraction of samples that are closer to one of these than all but 1% of the held-out rows.
    """

    loss: float
    log_likelihood: float
    sliced_wasserstein: float
    neighbor_distance_ratio: float
    memorization_rate: float

    def __str__(self) -> str:
        return (
            f"log-likelihood {self.log_likelihood:.4f}, score matching loss {self.loss:.4f}, "
            f"sliced Wasserstein distance {self.sliced_wasserstein:.4f}, "
            f"neighbor distance ratio {self.neighbor_distance_ratio:.2f}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class ReportSamples:
    """The rows that a report shows: held out, sampled, and the training rows (or centers) nearest to the first samples,
    with the distances of samples and of held-out rows to their nearest neighbors."""

    held_out_nd: Tensor
    samples_nd: Tensor
    nearest_id: Tensor
    sample_distance_n: Tensor
    held_out_distance_n: Tensor


@torch.no_grad()
def evaluate(model: ScoreModel, known_Nd: Tensor, held_out_Md: Tensor) -> tuple[Scores, ReportSamples]:
    """Scores a model on at most 2,000 of the held-out rows; the known rows are all that it was made from."""
    rows_nd = held_out_Md[:_MAX_ROWS]
    samples_nd = model.sample(len(rows_nd), seed=0).cpu()
    sample_distance_n, index_n = nearest_neighbors(samples_nd, known_Nd)
    held_out_distance_n, _ = nearest_neighbors(rows_nd, known_Nd)
    ratio, rate = memorization(sample_distance_n, held_out_distance_n)
    parts = rows_nd.split(256)
    scores = Scores(
        loss=float(torch.cat([model.losses(part).cpu() for part in parts]).double().mean()),
        log_likelihood=float(torch.cat([model.log_prob(part).cpu() for part in parts]).double().mean()),
        sliced_wasserstein=sliced_wasserstein(samples_nd, rows_nd),
        neighbor_distance_ratio=ratio,
        memorization_rate=rate,
    )
    nearest_id = known_Nd[index_n[:_IMAGES]]
    return scores, ReportSamples(rows_nd, samples_nd, nearest_id, sample_distance_n, held_out_distance_n)


_MAX_DISTANCES = 2**24  # held at once


def sliced_wasserstein(
    x_nd: Float[Tensor, "n d"], y_md: Float[Tensor, "m d"], directions: int = 256, seed: int = 0
) -> float:
    """The sliced Wasserstein distance: the root mean squared difference of equal quantiles along random directions,
    which are the same for the same seed."""
    x_nd, y_md = as_numbers(x_nd, "rows", "(rows, d)"), as_numbers(y_md, "reference rows", "(rows, d)")
    _check_pair(x_nd, y_md)
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
    x_nd, reference_md = as_numbers(x_nd, "rows", "(rows, d)"), as_numbers(reference_md, "reference rows", "(rows, d)")
    _check_pair(x_nd, reference_md)
    rows = max(1, _MAX_DISTANCES // max(1, len(reference_md)))
    minima = [torch.cdist(part, reference_md).min(1) for part in x_nd.split(rows)]
    return torch.cat([minimum.values for minimum in minima]), torch.cat([minimum.indices for minimum in minima])


def _check_pair(x_nd: Tensor, y_md: Tensor) -> None:
    if x_nd.shape[1] != y_md.shape[1] or not (x_nd.numel() and y_md.numel()):
        raise InputError(
            f"rows have shape {tuple(x_nd.shape)} and reference rows {tuple(y_md.shape)}; give at least one row of "
            "each, with as many columns"
        )


def memorization(
    sample_distance_n: Float[Tensor, " n"], held_out_distance_m: Float[Tensor, " m"]
) -> tuple[float, float]:
    """Whether samples are copies, by the distances of samples and of held-out rows to the nearest row that a model was
    made from.

    Returns:
        The ratio of the median distances: 1 for samples as new as held-out data, 0 for copies. And the memorization
        rate: the fraction of samples that are closer than all but 1% of the held-out rows.
    """
    own_n = as_numbers(sample_distance_n, "distances of samples", "(n,)").double()
    fresh_m = as_numbers(held_out_distance_m, "distances of held-out rows", "(m,)").double()
    if not len(own_n) or not len(fresh_m):
        raise InputError("there are no distances; give those of at least one sample and one held-out row")
    median = float(fresh_m.median())
    ratio = float(own_n.median()) / median if median > 0 else float("nan")
    return ratio, float((own_n < torch.quantile(fresh_m[:1_000_000], 0.01)).double().mean())
