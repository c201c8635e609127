"""How good a trained model is on rows that it never saw, and the rows that its report shows.

Legend: N training rows and centers, M held out, n samples, i images, d dimensions.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..model.score_model import ScoreModel
from .sample_quality import memorization, nearest_neighbors, sliced_wasserstein

_MAX_ROWS, _IMAGES = 2000, 24


@dataclass(frozen=True, slots=True)
class Scores:
    """Of a model, on held-out rows.

    Attributes:
        loss: the mean of 2 tr(grad s) + |s|^2, in standardized units.
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
            f"log-likelihood {self.log_likelihood:.4f}, loss {self.loss:.4f}, sliced Wasserstein distance "
            f"{self.sliced_wasserstein:.4f}, neighbor distance ratio {self.neighbor_distance_ratio:.2f}"
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
