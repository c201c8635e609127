"""How good a trained model is on rows that it never saw, and the rows that its pictures show.

Legend: N rows trained on and centers, M held out, n draws, d dimensions.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..model.score_model import ScoreModel
from .sample_quality import nearest, neighbours, sliced_wasserstein

_SCORED = 2000
_SHOWN, _IMAGES = 2000, 24


@dataclass(frozen=True, slots=True)
class Scores:
    """Of a model, on held-out rows.

    Attributes:
        loss: the mean of 2 tr(grad s) + |s|^2, in the model's units.
        log_likelihood: the mean log-density, in nats.
        wasserstein: the sliced Wasserstein distance of as many draws to the held-out rows.
        neighbours: how far draws are from the nearest training row or center, over how far held-out rows are.
        copies: the share of draws nearer to one of these than all but a hundredth of the held-out rows.
    """

    loss: float
    log_likelihood: float
    wasserstein: float
    neighbours: float
    copies: float

    def __str__(self) -> str:
        return (
            f"log-likelihood {self.log_likelihood:.4f}, loss {self.loss:.4f}, sliced Wasserstein distance "
            f"{self.wasserstein:.4f}, neighbours {self.neighbours:.2f}"
        )


@torch.no_grad()
def score(model: ScoreModel, known_Nd: Tensor, held_out_Md: Tensor) -> Scores:
    """Scores on at most 2,000 of the held-out rows; all rows that the model was made of are known ones."""
    rows_Md = held_out_Md[:_SCORED]
    drawn_nd = model.sample(len(rows_Md), seed=0).cpu()
    near = neighbours(drawn_nd, known_Nd, rows_Md)
    parts = rows_Md.split(256)
    return Scores(
        loss=float(torch.cat([model.losses(part).cpu() for part in parts]).double().mean()),
        log_likelihood=float(torch.cat([model.log_prob(part).cpu() for part in parts]).double().mean()),
        wasserstein=sliced_wasserstein(drawn_nd, rows_Md),
        neighbours=near.ratio,
        copies=near.copies,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """Rows for pictures: of the data, drawn, and the training rows (or centers) nearest to the first draws, with the
    distances of draws and of held-out rows to their nearest."""

    data_nd: Tensor
    drawn_nd: Tensor
    nearest_id: Tensor
    drawn_distance_n: Tensor
    held_out_distance_n: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, model: ScoreModel, known_Nd: Tensor, held_out_Md: Tensor) -> "Shown":
        data_nd = held_out_Md[:_SHOWN]
        drawn_nd = model.sample(len(data_nd), seed=0).cpu()
        distance_n, place_n = nearest(drawn_nd, known_Nd)
        return cls(data_nd, drawn_nd, known_Nd[place_n[:_IMAGES]], distance_n, nearest(data_nd, known_Nd)[0])
