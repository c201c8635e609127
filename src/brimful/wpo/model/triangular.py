"""The full factor: P = L L^T, L a lower triangle that lies packed, its diagonal positive.

Legend: K centers, B samples, d dimensions, P = d (d + 1) / 2 entries of a triangle, H hidden features.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from . import packed_triangle
from .factors import positive


@dataclass(frozen=True, slots=True)
class Triangular:
    """P = L L^T.

    Attributes:
        d: dimensions.
        floor: the least entry of the diagonal.
    """

    d: int
    floor: float

    @property
    def outputs(self) -> int:
        return packed_triangle.size(self.d)

    @property
    def noise(self) -> int:
        return self.d

    def begin(self, weight_PH: Tensor, bias_P: Tensor) -> None:
        weight_PH.normal_(std=0.1 * (weight_PH.shape[1] * self.d) ** -0.5)
        bias_P.zero_()

    def shape(self, raw_KP: Tensor) -> Tensor:
        where = packed_triangle.diagonal(self.d, raw_KP.device)
        return raw_KP.index_copy(1, where, self.positive(raw_KP.index_select(1, where)))

    def positive(self, raw_Kd: Tensor) -> Tensor:
        """A diagonal from the network's numbers for it."""
        return positive(raw_Kd, self.floor)

    def parts(self, packed_KP: Tensor, r_KBd: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        diagonal_Kd = packed_KP.index_select(1, packed_triangle.diagonal(self.d, packed_KP.device))
        if torch.is_grad_enabled() and (packed_KP.requires_grad or r_KBd.requires_grad):
            L_Kdd = packed_triangle.lower(packed_KP, self.d)
            y_KBd = r_KBd @ L_Kdd
            u_KBd = y_KBd @ L_Kdd.mT
        else:
            y_KBd = packed_triangle.transposed(packed_KP, r_KBd)
            u_KBd = packed_triangle.times(packed_KP, y_KBd)
        a_KB = diagonal_Kd.log().sum(-1)[:, None] - 0.5 * y_KBd.square().sum(-1)
        return a_KB, u_KBd, packed_triangle.trace(packed_KP, self.d)

    def noisy(self, packed_KP: Tensor, r_KBd: Tensor, c_d: Tensor) -> tuple[Tensor, Tensor]:
        """By (P^-1 + C)^-1 = L (I + L^T C L)^-1 L^T, whose middle is at least the identity."""
        L_Kdd = packed_triangle.lower(packed_KP, self.d)
        middle_Kdd = torch.eye(self.d, dtype=L_Kdd.dtype, device=L_Kdd.device) + L_Kdd.mT @ (c_d[:, None] * L_Kdd)
        R_Kdd = torch.linalg.cholesky(middle_Kdd)
        y_KdB = L_Kdd.mT @ r_KBd.mT
        half_KdB = torch.linalg.solve_triangular(R_Kdd, y_KdB, upper=False)
        u_KdB = L_Kdd @ torch.linalg.solve_triangular(R_Kdd.mT, half_KdB, upper=True)
        logs_K = (_diagonal(L_Kdd).log() - _diagonal(R_Kdd).log()).sum(-1)
        return logs_K[:, None] - 0.5 * half_KdB.square().sum(1), u_KdB.mT

    def draw(self, packed_KP: Tensor, e_KBd: Tensor) -> Tensor:
        return packed_triangle.solve_transposed(packed_KP, e_KBd)


def _diagonal(matrix_Kdd: Tensor) -> Tensor:
    return matrix_Kdd.diagonal(dim1=-2, dim2=-1)
