"""The full factor: P = L L^T, with L a packed lower triangle whose diagonal is positive.

Legend: K centers, B samples, d dimensions, P = d (d + 1) / 2 entries of a triangle, H hidden features.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from . import packed_triangle
from .positive import positive


@dataclass(frozen=True, slots=True)
class Triangular:
    """P = L L^T.

    Attributes:
        d: dimensions.
        floor: lower bound of the diagonal's entries.
    """

    d: int
    floor: float

    @property
    def out_features(self) -> int:
        """Numbers per center that the network has to give."""
        return packed_triangle.size(self.d)

    @property
    def noise_features(self) -> int:
        """Standard normal numbers that one sample needs."""
        return self.d

    def initialize(self, weight_PH: Tensor, bias_P: Tensor) -> None:
        """Fills the last layer so that precisions start at about the identity."""
        weight_PH.normal_(std=0.1 * (weight_PH.shape[1] * self.d) ** -0.5)
        bias_P.zero_()

    def constrain(self, raw_KP: Tensor) -> Tensor:
        """The network's output with a positive diagonal; differentiable. The other methods take what it returns."""
        diagonal = packed_triangle.diagonal_indices(self.d, raw_KP.device)
        return raw_KP.index_copy(1, diagonal, positive(raw_KP.index_select(1, diagonal), self.floor))

    def evaluate(self, packed_KP: Tensor, r_KBd: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(0.5 logdet P - 0.5 r.Pr)_KB, (P r)_KBd and (tr P)_K; differentiable."""
        L_Kdd = packed_triangle.unpack(packed_KP, self.d)
        diagonal_Kd = packed_KP.index_select(1, packed_triangle.diagonal_indices(self.d, packed_KP.device))
        y_KBd = r_KBd @ L_Kdd
        logit_KB = diagonal_Kd.log().sum(-1)[:, None] - 0.5 * y_KBd.square().sum(-1)
        return logit_KB, y_KBd @ L_Kdd.mT, packed_triangle.trace(packed_KP, self.d)

    def evaluate_noisy(self, packed_KP: Tensor, r_KBd: Tensor, c_d: Tensor) -> tuple[Tensor, Tensor]:
        """The first two of (P^-1 + C)^-1 with C diagonal, as L (I + L^T C L)^-1 L^T, whose middle is at least the
        identity."""
        L_Kdd = packed_triangle.unpack(packed_KP, self.d)
        middle_Kdd = torch.eye(self.d, dtype=L_Kdd.dtype, device=L_Kdd.device) + L_Kdd.mT @ (c_d[:, None] * L_Kdd)
        R_Kdd = torch.linalg.cholesky(middle_Kdd)
        y_KdB = L_Kdd.mT @ r_KBd.mT
        half_KdB = torch.linalg.solve_triangular(R_Kdd, y_KdB, upper=False)
        u_KdB = L_Kdd @ torch.linalg.solve_triangular(R_Kdd.mT, half_KdB, upper=True)
        half_logdet_K = (_diagonal(L_Kdd).log() - _diagonal(R_Kdd).log()).sum(-1)
        return half_logdet_K[:, None] - 0.5 * half_KdB.square().sum(1), u_KdB.mT

    def sample(self, packed_KP: Tensor, e_KBd: Tensor) -> Tensor:
        """Samples of covariance P^-1, (K, B, d), from standard normal numbers: L^-T e."""
        return torch.linalg.solve_triangular(packed_triangle.unpack(packed_KP, self.d).mT, e_KBd.mT, upper=True).mT


def _diagonal(matrix_Kdd: Tensor) -> Tensor:
    return matrix_Kdd.diagonal(dim1=-2, dim2=-1)
