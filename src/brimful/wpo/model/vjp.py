"""The products of full triangles with what pulls gradients back through them (docs/wpo.md).

Legend: k centers of a chunk, B samples, d dimensions, P = d (d + 1) / 2.

With y = L^T r and u = L y, of each center and sample: the logit a = sum log L_ii - |y|^2 / 2, u, and tau = |L|_F^2.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from . import packed_triangle


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """What a chunk of triangles makes of the differences between samples and centers.

    Attributes:
        packed_kP: the triangles.
        r_kBd: samples less centers.
        y_kBd, u_kBd: L^T r and L L^T r.
        diagonal_kd: of the triangles.
    """

    packed_kP: Tensor
    r_kBd: Tensor
    y_kBd: Tensor
    u_kBd: Tensor
    diagonal_kd: Tensor

    @classmethod
    def of(cls, packed_kP: Tensor, r_kBd: Tensor) -> "Products":
        y_kBd = packed_triangle.transposed(packed_kP, r_kBd)
        where = packed_triangle.diagonal(r_kBd.shape[-1], packed_kP.device)
        return cls(packed_kP, r_kBd, y_kBd, packed_triangle.times(packed_kP, y_kBd), packed_kP.index_select(1, where))

    @property
    def logits(self) -> Tensor:
        """The logits (k, B): 0.5 logdet P - 0.5 r.P r."""
        return self.diagonal_kd.log().sum(-1)[:, None] - 0.5 * self.y_kBd.square().sum(-1)

    @property
    def values(self) -> Tensor:
        """The values (k, B, d + 1): -u, and |u|^2 - tr P."""
        return value(self.u_kBd, packed_triangle.trace(self.packed_kP, self.r_kBd.shape[-1]))

    def pull(
        self, abar_kB: Tensor, vbar_kBV: Tensor, wants_r: bool, into_kP: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The gradients of the packed triangles and of r.

        Args:
            abar_kB, vbar_kBV: those of the logits and the values.
            wants_r: whether that of r is needed.
            into_kP: where the triangles lie that their gradient may overwrite: `packed_kP` itself, or a copy of it.
        """
        qbar_kB = vbar_kBV[..., -1]
        ubar_kBd = torch.mul(self.u_kBd, 2 * qbar_kB[..., None]).sub_(vbar_kBV[..., :-1])
        ybar_kBd = packed_triangle.transposed(self.packed_kP, ubar_kBd).addcmul_(
            abar_kB[..., None], self.y_kBd, value=-1
        )
        rbar_kBd = packed_triangle.times(self.packed_kP, ybar_kBd) if wants_r else None
        found_kP = self.packed_kP.clone() if into_kP is None else into_kP
        scale_k = -2 * qbar_kB.sum(-1)  # of tau
        packed_triangle.outer([(ubar_kBd, self.y_kBd), (self.r_kBd, ybar_kBd)], found_kP, scale_k)
        where = packed_triangle.diagonal(self.r_kBd.shape[-1], found_kP.device)
        found_kP.index_add_(1, where, abar_kB.sum(-1, keepdim=True) / self.diagonal_kd)
        return found_kP, rbar_kBd


def value(u_kBd: Tensor, tau_k: Tensor) -> Tensor:
    """-u, and |u|^2 - tau, side by side."""
    square_kB = torch.linalg.vector_norm(u_kBd, dim=-1).square()
    return torch.cat((-u_kBd, (square_kB - tau_k[:, None])[..., None]), dim=-1)
