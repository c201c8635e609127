"""Which receivers a model knows: the sites of its training recordings, where there are few enough to be known."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from ...core.base.errors import InputError
from ..physics import tangent_plane
from .recordings import Recordings

MOST_SITES = 64
"""With more sites than this in training, a model has learned to do with any."""

_NEAR = 100.0  # metres within which a receiver is at a site


def distinct_sites(recordings: Recordings) -> tuple[np.ndarray, np.ndarray]:
    """The sites (S, 2) of all receivers, once each and in order, and the number of the site of each that took part."""
    pairs = recordings.positions[recordings.mask].contiguous().numpy().view(np.complex128)[:, 0]  # sorted as one number
    sites, which = np.unique(pairs, return_inverse=True)
    return sites.view(np.float64).reshape(-1, 2), which


@dataclass(frozen=True, slots=True, eq=False)
class ReceiverSet:
    """The sites (S, 2) of receivers, as latitude and longitude; none where a model does with any."""

    sites: Tensor

    @classmethod
    def of(cls, recordings: Recordings) -> Self:
        sites = torch.from_numpy(distinct_sites(recordings)[0])
        return cls(sites if len(sites) <= MOST_SITES else sites[:0])

    def unknown(self, recordings: Recordings) -> Tensor:
        """(U, 2), the sites of receivers that are at none of the set's."""
        others = torch.from_numpy(distinct_sites(recordings)[0])
        others = others[others.isfinite().all(1)]
        if not len(self.sites) or not len(others):
            return others[:0]
        S, U = len(self.sites), len(others)
        apart = tangent_plane.distance(others[:, None].expand(U, S, 2), self.sites[None].expand(U, S, 2))
        return others[apart.min(1).values > _NEAR]

    def check(self, recordings: Recordings) -> None:
        """Refuses recordings of other receivers: of these the model has learned nothing.

        Raises:
            InputError: with the first of them, and what to do.
        """
        unknown = self.unknown(recordings)
        if len(unknown):
            latitude, longitude = unknown[0].tolist()
            raise InputError(
                f"the model was trained with receivers at {len(self.sites)} sites, and {len(unknown)} of these "
                f"recordings' are elsewhere, the first at {latitude:.4f}, {longitude:.4f}. Train with them, or with "
                "random sites; other_receivers=True predicts all the same, and is likely to be wrong"
            )


def sites_tensor(sites: list[list[float]]) -> Tensor:
    return torch.tensor(sites, dtype=torch.float64).reshape(-1, 2)
