"""What of `optimize/matrices.py` is other on a GPU: the matrices of many tasks at once, and two Triton kernels.

One kernel writes the covariance. K = L L^T, W = L^-1 and K^-1 = W^T W are made by blocks (`elimination.py`), several
times faster than by libraries. A second kernel reads K^-1 once, for the gradient and for dK weights by each
lengthscale; dK is made from the inputs where it is used, and never stored.

Legend: T tasks, L evaluations, N points, D input dimensions, P parameters, S lengthscales.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..model.kernels import Kernel
from ..model.shapes import SHAPES
from ..optimize import matrices
from .cholesky import value_of
from .elimination import BlockFactor, squared
from .likelihood import size

_BLOCK = 32  # rows and columns of one program's part of a matrix


@triton.jit
def _squared_distances(x, scales, i, j, n, D: tl.constexpr, ARD: tl.constexpr, B: tl.constexpr):
    R = tl.zeros([B, B], tl.float64)
    for d in tl.static_range(D):
        R += _along(x, tl.exp(-2.0 * tl.load(scales + d * ARD)), d, i, j, n, D)
    return R


@triton.jit
def _along(x, scale, d, i, j, n, D: tl.constexpr):
    """Squared distances along one dimension."""
    a = tl.load(x + i * D + d, mask=i < n, other=0.0)
    b = tl.load(x + j * D + d, mask=j < n, other=0.0)
    gap = a[:, None] - b[None, :]
    return gap * gap * scale


@triton.jit(do_not_specialize=["n", "N"], do_not_specialize_on_alignment=["theta", "index"])
def _covariance(
    x, known, theta, index, out, n, N,
    D: tl.constexpr, P: tl.constexpr, SHAPE: tl.constexpr, ARD: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """The covariances of evaluations, each of one task, `index`, at theta[L, P]; of their first n points. `known` is
    the noise that is known, -inf at a missing point."""
    slot = tl.program_id(0).to(tl.int64)
    t = tl.load(index + slot).to(tl.int64)
    i, j = tl.program_id(1) * B + tl.arange(0, B), tl.program_id(2) * B + tl.arange(0, B)
    theta += slot * P
    variance, noise = tl.exp(tl.load(theta)), tl.exp(tl.load(theta + P - 1))
    R = _squared_distances(x + t * N * D, theta + 1, i, j, n, D, ARD, B)
    value, _derivative = value_of(R, SHAPE)
    rows = tl.load(known + t * N + i, mask=i < n, other=float("-inf"))
    columns = tl.load(known + t * N + j, mask=j < n, other=float("-inf"))
    missing = (rows == float("-inf"))[:, None] | (columns == float("-inf"))[None, :]
    lifted = tl.where(rows == float("-inf"), 1.0, variance + noise + rows)
    K = tl.where(i[:, None] == j[None, :], lifted[:, None], tl.where(missing, 0.0, variance * value))
    at = slot * n * n + i[:, None] * n + j[None, :]
    tl.store(out + at, K, mask=(i < n)[:, None] & (j < n)[None, :])


@triton.jit(do_not_specialize=["n", "N", "NB"], do_not_specialize_on_alignment=["theta", "index"])
def _contract(
    x, known, theta, index, inverse, weights, out_gradient, out_moved, n, N, NB,
    D: tl.constexpr, P: tl.constexpr, SHAPE: tl.constexpr, ARD: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """By one lengthscale, for some rows of one evaluation: dK weights, and the sum of (K^-1 - weights weights^T) dK."""
    slot, block, s = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    t = tl.load(index + slot).to(tl.int64)
    i = block * B + tl.arange(0, B)
    theta += slot * P
    x += t * N * D
    variance, scale = tl.exp(tl.load(theta)), tl.exp(-2.0 * tl.load(theta + 1 + s))
    there = tl.load(known + t * N + i, mask=i < n, other=float("-inf")) != float("-inf")
    a = tl.load(weights + slot * n + i, mask=i < n, other=0.0)
    total, moved = tl.zeros([B], tl.float64), tl.zeros([B], tl.float64)
    for k in range(NB):
        j = k * B + tl.arange(0, B)
        both = there[:, None] & (tl.load(known + t * N + j, mask=j < n, other=float("-inf")) != float("-inf"))[None, :]
        b = tl.load(weights + slot * n + j, mask=j < n, other=0.0)
        R = _squared_distances(x, theta + 1, i, j, n, D, ARD, B)
        _value, derivative = value_of(R, SHAPE)
        if ARD:
            R = _along(x, scale, s, i, j, n, D)
        dK = tl.where(both, variance * derivative * R, 0.0)
        G = tl.load(inverse + slot * n * n + i[:, None] * n + j[None, :], mask=both, other=0.0)
        total += tl.sum((G - a[:, None] * b[None, :]) * dK, axis=1)
        moved += tl.sum(dK * b[None, :], axis=1)
    tl.store(out_moved + (slot * (P - 2) + s) * n + i, moved, mask=i < n)
    tl.store(out_gradient + (slot * NB + block) * (P - 2) + s, tl.sum(total, axis=0))


class MatrixEvaluator(matrices.MatrixEvaluator):
    """Evaluates tasks by their index, many at once."""

    at_once = 1 << 15  # twice as many are a known limit of the batched solvers

    def _covariance(self, index_L: Tensor, theta_LP: Tensor, n: int) -> tuple[Tensor, None]:
        K_LNN = torch.empty(len(index_L), n, n, dtype=torch.float64, device=theta_LP.device)
        across, run = -(-n // _BLOCK), _covariance
        run[(len(index_L), across, across)](
            self._x_TND, self._known_TN, theta_LP.contiguous(), index_L.int(), K_LNN, n, self._x_TND.shape[1],
            **self._constants(theta_LP),
        )  # fmt: skip
        return K_LNN, None

    def _factored(self, K_LNN: Tensor) -> tuple[BlockFactor, Tensor, Tensor]:
        factor = BlockFactor.of_(K_LNN)
        return factor, factor.logdet_T, factor.good_T

    def _solve(self, factor: BlockFactor, B_LNK: Tensor) -> Tensor:
        return factor.solve_rows_(B_LNK.mT.contiguous()).mT

    def _invert(self, factor: BlockFactor) -> matrices.InvertedFactor:
        W_LNN = factor.invert_()
        return matrices.InvertedFactor(squared(W_LNN), lambda B_LNK: W_LNN @ B_LNK, lambda B_LNK: W_LNN.mT @ B_LNK)

    def _contract(
        self, index_L: Tensor, theta_LP: Tensor, n: int, inverse_LNN: Tensor, weights_LN: Tensor, kept: None
    ) -> tuple[Tensor, Tensor]:
        (L, P), across, run = theta_LP.shape, -(-n // _BLOCK), _contract
        like = {"dtype": torch.float64, "device": theta_LP.device}
        parts_LRS, moved_LSN = torch.empty(L, across, P - 2, **like), torch.empty(L, P - 2, n, **like)
        run[(L, across, P - 2)](
            self._x_TND, self._known_TN, theta_LP.contiguous(), index_L.int(), inverse_LNN, weights_LN.contiguous(),
            parts_LRS, moved_LSN, n, self._x_TND.shape[1], size(across), **self._constants(theta_LP),
        )  # fmt: skip
        return parts_LRS.sum(1), moved_LSN

    def _constants(self, theta_LP: Tensor) -> dict[str, Any]:
        return constants(self.kernel, self._x_TND.shape[2], theta_LP.shape[1]) | {"B": _BLOCK}


def constants(kernel: Kernel, dimensions: int, parameters: int) -> dict[str, Any]:
    """What a kernel that makes covariances has compiled in."""
    shape = SHAPES.index(kernel.factors[0].shape)
    return {"D": dimensions, "P": parameters, "SHAPE": shape, "ARD": int(parameters > 3)}
