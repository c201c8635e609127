"""The low-rank factor: P = D^2 + F F^T, with D a positive diagonal and F of few columns.

Legend: K centers, B samples, d dimensions, R columns of F, O = d + d R numbers: D, then F row by row.

Determinants and inverses go through R x R matrices (the determinant lemma, Woodbury's identity).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .positive import positive


@dataclass(frozen=True, slots=True)
class LowRank:
    """P = D^2 + F F^T.

    Attributes:
        d: dimensions.
        rank: columns of F.
        floor: lower bound of D's entries.
    """

    d: int
    rank: int
    floor: float

    @property
    def out_features(self) -> int:
        return self.d * (1 + self.rank)

    @property
    def noise_features(self) -> int:
        return self.d + self.rank

    def initialize(self, weight_OH: Tensor, bias_O: Tensor) -> None:
        """F must not start at 0: its gradient is 0 there too."""
        weight_OH.normal_(std=0.1 * (weight_OH.shape[1] * self.d) ** -0.5)
        bias_O.normal_(std=0.1 * self.d**-0.5)[: self.d] = 0

    def constrain(self, raw_KO: Tensor) -> Tensor:
        return torch.cat((positive(raw_KO[:, : self.d], self.floor), raw_KO[:, self.d :]), dim=1)

    def evaluate(self, factor_KO: Tensor, r_KBd: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        D_Kd, F_KdR = self._split(factor_KO)
        scaled_KBd, f_KBR = r_KBd * D_Kd[:, None], r_KBd @ F_KdR
        u_KBd = scaled_KBd * D_Kd[:, None] + f_KBR @ F_KdR.mT
        quadratic_KB = scaled_KBd.square().sum(-1) + f_KBR.square().sum(-1)
        return self._half_logdet(D_Kd, F_KdR)[:, None] - 0.5 * quadratic_KB, u_KBd, factor_KO.square().sum(-1)

    def evaluate_noisy(self, factor_KO: Tensor, r_KBd: Tensor, c_d: Tensor) -> tuple[Tensor, Tensor]:
        """By (P^-1 + C)^-1 = P (I + C P)^-1, with I + C P = E + C F F^T for a diagonal E."""
        D_Kd, F_KdR = self._split(factor_KO)
        E_Kd = 1 + c_d * D_Kd.square()
        scaled_KdR = F_KdR * (c_d / E_Kd)[..., None]
        R_KRR = self._cholesky(F_KdR.mT @ scaled_KdR)
        v_KBd = r_KBd / E_Kd[:, None]
        v_KBd = v_KBd - torch.cholesky_solve((v_KBd @ F_KdR).mT, R_KRR).mT @ scaled_KdR.mT
        u_KBd = v_KBd * D_Kd.square()[:, None] + (v_KBd @ F_KdR) @ F_KdR.mT
        half_logdet_K = self._half_logdet(D_Kd, F_KdR) - 0.5 * E_Kd.log().sum(-1) - _log_diagonal(R_KRR)
        return half_logdet_K[:, None] - 0.5 * (r_KBd * u_KBd).sum(-1), u_KBd

    def sample(self, factor_KO: Tensor, e_KBE: Tensor) -> Tensor:
        """P^-1 v where v has the covariance P."""
        D_Kd, F_KdR = self._split(factor_KO)
        v_KBd = e_KBE[..., : self.d] * D_Kd[:, None] + e_KBE[..., self.d :] @ F_KdR.mT
        scaled_KdR = F_KdR / D_Kd.square()[..., None]
        R_KRR = self._cholesky(F_KdR.mT @ scaled_KdR)
        out_KBR = torch.cholesky_solve((v_KBd @ scaled_KdR).mT, R_KRR).mT
        return v_KBd / D_Kd.square()[:, None] - out_KBR @ scaled_KdR.mT

    def _split(self, factor_KO: Tensor) -> tuple[Tensor, Tensor]:
        return factor_KO[:, : self.d], factor_KO[:, self.d :].unflatten(1, (self.d, self.rank))

    def _half_logdet(self, D_Kd: Tensor, F_KdR: Tensor) -> Tensor:
        whitened_KdR = F_KdR / D_Kd[..., None]
        return D_Kd.log().sum(-1) + _log_diagonal(self._cholesky(whitened_KdR.mT @ whitened_KdR))

    def _cholesky(self, gram_KRR: Tensor) -> Tensor:
        """The Cholesky factor of I + gram, which is positive definite whatever F is."""
        return torch.linalg.cholesky(torch.eye(self.rank, dtype=gram_KRR.dtype, device=gram_KRR.device) + gram_KRR)


def _log_diagonal(R_KRR: Tensor) -> Tensor:
    return R_KRR.diagonal(dim1=-2, dim2=-1).log().sum(-1)
