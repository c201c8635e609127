"""The full factor: P = L L^T, with L a packed lower triangle whose diagonal is positive; also with a backward pass of
its own.

Legend: K centers, k of a chunk, B samples, d dimensions, P = d (d + 1) / 2 entries of a triangle, H hidden features.

With y = L^T r and u = L y, for each center and sample: the logit sum log L_ii - |y|^2 / 2, u, and tau = |L|_F^2
(docs/wpo.md).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .packed_triangle import diagonal_indices, outer_, product, size, trace, unpack
from .positive import positive
from .squared_norm import squared_norm


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
        return size(self.d)

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
        diagonal = diagonal_indices(self.d, raw_KP.device)
        return raw_KP.index_copy(1, diagonal, positive(raw_KP.index_select(1, diagonal), self.floor))

    def evaluate(self, packed_KP: Tensor, r_KBd: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(0.5 logdet P - 0.5 r.Pr)_KB, (P r)_KBd and (tr P)_K; differentiable."""
        L_Kdd = unpack(packed_KP, self.d)
        diagonal_Kd = packed_KP.index_select(1, diagonal_indices(self.d, packed_KP.device))
        y_KBd = r_KBd @ L_Kdd
        logit_KB = diagonal_Kd.log().sum(-1)[:, None] - 0.5 * y_KBd.square().sum(-1)
        return logit_KB, y_KBd @ L_Kdd.mT, trace(packed_KP, self.d)

    def evaluate_noisy(self, packed_KP: Tensor, r_KBd: Tensor, c_d: Tensor) -> tuple[Tensor, Tensor]:
        """The first two of (P^-1 + C)^-1 with C diagonal, as L (I + L^T C L)^-1 L^T, whose middle is at least the
        identity."""
        L_Kdd = unpack(packed_KP, self.d)
        middle_Kdd = torch.eye(self.d, dtype=L_Kdd.dtype, device=L_Kdd.device) + L_Kdd.mT @ (c_d[:, None] * L_Kdd)
        R_Kdd = torch.linalg.cholesky(middle_Kdd)
        y_KdB = L_Kdd.mT @ r_KBd.mT
        half_KdB = torch.linalg.solve_triangular(R_Kdd, y_KdB, upper=False)
        u_KdB = L_Kdd @ torch.linalg.solve_triangular(R_Kdd.mT, half_KdB, upper=True)
        half_logdet_K = (_diagonal(L_Kdd).log() - _diagonal(R_Kdd).log()).sum(-1)
        return half_logdet_K[:, None] - 0.5 * half_KdB.square().sum(1), u_KdB.mT

    def sample(self, packed_KP: Tensor, e_KBd: Tensor) -> Tensor:
        """Samples of covariance P^-1, (K, B, d), from standard normal numbers: L^-T e."""
        return torch.linalg.solve_triangular(unpack(packed_KP, self.d).mT, e_KBd.mT, upper=True).mT


def _diagonal(matrix_Kdd: Tensor) -> Tensor:
    return matrix_Kdd.diagonal(dim1=-2, dim2=-1)


@dataclass(frozen=True, slots=True, eq=False)
class TriangleProducts:
    """The products of a chunk of triangles.

    Attributes:
        packed_kP: the triangles.
        r_kBd: samples minus centers.
        y_kBd, u_kBd: L^T r and L L^T r.
        diagonal_kd: of the triangles.
    """

    packed_kP: Tensor
    r_kBd: Tensor
    y_kBd: Tensor
    u_kBd: Tensor
    diagonal_kd: Tensor

    @classmethod
    def compute(cls, packed_kP: Tensor, r_kBd: Tensor) -> "TriangleProducts":
        y_kBd = product(packed_kP, r_kBd, transposed=True)
        diagonal_kd = packed_kP.index_select(1, diagonal_indices(r_kBd.shape[-1], packed_kP.device))
        return cls(packed_kP, r_kBd, y_kBd, product(packed_kP, y_kBd), diagonal_kd)

    def outputs(self) -> tuple[Tensor, Tensor]:
        """The logits (B, k), 0.5 logdet P - 0.5 r.P r, and the values (B, k, d + 1)."""
        logit_kB = self.diagonal_kd.log().sum(-1)[:, None] - 0.5 * self.y_kBd.square().sum(-1)
        value_kBV = score_values(self.u_kBd, trace(self.packed_kP, self.r_kBd.shape[-1]))
        return logit_kB.mT, value_kBV.transpose(0, 1)

    def vjp(
        self, grad_logit_Bk: Tensor, grad_value_BkV: Tensor, needs_r: bool, overwrite: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """The gradients of the packed triangles and, where it is needed, of r, given those of the outputs.

        Args:
            overwrite: the gradient of the triangles may take their memory.
        """
        grad_logit_kB, grad_value_kBV = grad_logit_Bk.mT, grad_value_BkV.transpose(0, 1)
        grad_square_kB = grad_value_kBV[..., -1]
        grad_u_kBd = torch.mul(self.u_kBd, 2 * grad_square_kB[..., None]).sub_(grad_value_kBV[..., :-1])
        grad_y_kBd = product(self.packed_kP, grad_u_kBd, transposed=True)
        grad_y_kBd.addcmul_(grad_logit_kB[..., None], self.y_kBd, value=-1)
        grad_r_kBd = product(self.packed_kP, grad_y_kBd) if needs_r else None
        grad_kP = self.packed_kP if overwrite else self.packed_kP.clone()
        scale_k = -2 * grad_square_kB.sum(-1)  # of tau
        outer_(grad_kP, scale_k, [(grad_u_kBd, self.y_kBd), (self.r_kBd, grad_y_kBd)])
        diagonal = diagonal_indices(self.r_kBd.shape[-1], grad_kP.device)
        grad_kP.index_add_(1, diagonal, grad_logit_kB.sum(-1, keepdim=True) / self.diagonal_kd)
        return grad_kP, grad_r_kBd


def score_values(u_kBd: Tensor, tau_k: Tensor) -> Tensor:
    """-u and |u|^2 - tau, concatenated: (k, B, d + 1)."""
    return torch.cat((-u_kBd, (squared_norm(u_kBd) - tau_k[:, None])[..., None]), dim=-1)
