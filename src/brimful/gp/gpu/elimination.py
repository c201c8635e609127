"""Cholesky factors and inverses of many symmetric matrices, by blocks that one program eliminates in its registers.

Libraries are far from what a GPU can do for batches of 100 to 1,000 rows. Here a Triton kernel factors and inverts a
block on the diagonal, and all else is batched products of matrices, from left to right.

Legend: T matrices, N rows, B rows of a block, R right-hand sides.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from .likelihood import size

WARPS = {16: 1, 32: 1, 64: 4}
"""By the rows of a block, those that work on it."""


def rows_for(N: int) -> int:
    """Rows of a block, that are fastest for so many."""
    return 32 if N <= 256 else 64


@triton.jit
def eliminate(A, good, n, B: tl.constexpr):
    """Gaussian elimination of the first n rows of a symmetric A[B, B].

    Returns what A became: with A = L D L^T, L unit lower triangular, its diagonal is D, what is below it is that of
    L^-1, and above it is that of D L^T. Second, whether it is positive definite; third, its log determinant.

    A step takes multiples of row k from the rows below it. Column k is of no further use: it takes the multiples, with
    which rows of L^-1 are combined alike, so that one product of vectors updates all of it.
    """
    i = tl.arange(0, B)
    logdet = tl.sum(tl.zeros([B], tl.float64), axis=0)
    for k in range(n):
        one = tl.where(i == k, 1.0, 0.0).to(tl.float64)
        row = tl.sum(A * one[:, None], axis=0)
        pivot = tl.sum(row * one, axis=0)
        positive = (pivot > 0.0) & (pivot < float("inf"))
        good = good & positive
        logdet += tl.log(tl.where(positive, pivot, 1.0))
        over = tl.where(positive, 1.0 / tl.where(positive, pivot, 1.0), 0.0)
        multiples = tl.where(i > k, row * over, 0.0)  # symmetric still: the row is the column
        A -= multiples[:, None] * (row + one)[None, :]
    return A, good, logdet


@triton.jit
def inverse_factor(A, B: tl.constexpr):
    """From what `eliminate` gives: the inverse of the Cholesky factor."""
    i = tl.arange(0, B)
    same, below = i[:, None] == i[None, :], i[:, None] > i[None, :]
    pivot = tl.sum(tl.where(same, A, 0.0), axis=1)
    return tl.where(same, 1.0, tl.where(below, A, 0.0)) / tl.sqrt(tl.where(pivot > 0.0, pivot, 1.0))[:, None]


@triton.jit(do_not_specialize=["begin", "N", "width"])
def _invert_block(A, good, logdet, begin, N, width, B: tl.constexpr):
    """The block of A[T, N, N] that begins at a row becomes the inverse of its Cholesky factor."""
    t, i = tl.program_id(0).to(tl.int64), tl.arange(0, B)
    there = (i < width)[:, None] & (i < width)[None, :]
    at = A + t * N * N + (begin + i)[:, None] * N + (begin + i)[None, :]
    identity = tl.where(i[:, None] == i[None, :], 1.0, 0.0).to(tl.float64)
    block = tl.where(there, tl.load(at, mask=there, other=0.0), identity)
    block = tl.where(tl.abs(block) < float("inf"), block, float("nan"))
    block, is_good, log = eliminate(block, tl.load(good + t) != 0, width, B)
    tl.store(at, inverse_factor(block, B), mask=there)
    tl.store(good + t, is_good.to(tl.int8))
    tl.store(logdet + t, tl.load(logdet + t) + log)


@dataclass(frozen=True, slots=True)
class BlockFactor:
    """Cholesky factors L.

    Attributes:
        L_TNN: their blocks below the diagonal; on it the inverses of L's, and above it nothing of use.
        logdet_T: the log determinants of the matrices.
        good_T: which are positive definite; of the others the rest is of no use.
        rows: of a block.
    """

    L_TNN: Tensor
    logdet_T: Tensor
    good_T: Tensor
    rows: int

    @classmethod
    def of_(cls, A_TNN: Tensor, rows: int | None = None) -> "BlockFactor":
        """Of matrices, in whose place it is made."""
        T, N, _ = A_TNN.shape
        rows = rows or rows_for(N)
        good_T = torch.ones(T, dtype=torch.int8, device=A_TNN.device)
        logdet_T = torch.zeros(T, dtype=torch.float64, device=A_TNN.device)
        run, factor = _invert_block, cls(A_TNN, logdet_T, good_T, rows)
        for begin, stop in factor._spans() if T else ():
            column_TNB = A_TNN[:, begin:, begin:stop]
            if begin:
                column_TNB.baddbmm_(A_TNN[:, begin:, :begin], A_TNN[:, begin:stop, :begin].mT, alpha=-1)
            width = stop - begin
            B = max(16, triton.next_power_of_2(width))
            run[(T,)](A_TNN, good_T, logdet_T, begin, N, size(width), B=B, num_warps=WARPS[B])
            if stop < N:
                column_TNB[:, width:] = column_TNB[:, width:] @ column_TNB[:, :width].mT
        return cls(A_TNN, logdet_T, (good_T != 0) & logdet_T.isfinite(), rows)

    def _spans(self) -> list[tuple[int, int]]:
        N = self.L_TNN.shape[1]
        return [(begin, min(begin + self.rows, N)) for begin in range(0, N, self.rows)]

    def solve_rows_(self, B_TRN: Tensor) -> Tensor:
        """L^-1 times every row, in its place."""
        for begin, stop in self._spans():
            part_TRB = B_TRN[:, :, begin:stop]
            if begin:
                part_TRB.baddbmm_(B_TRN[:, :, :begin], self.L_TNN[:, begin:stop, :begin].mT, alpha=-1)
            part_TRB.copy_(part_TRB @ self.L_TNN[:, begin:stop, begin:stop].mT)
        return B_TRN

    def invert_(self) -> Tensor:
        """L^-1, in place of the factor."""
        W_TNN = self.L_TNN
        for begin, stop in self._spans():
            W_TNN[:, :begin, begin:stop] = 0
            if begin:
                row_TBN = W_TNN[:, begin:stop, :begin]
                row_TBN.copy_(W_TNN[:, begin:stop, begin:stop] @ (row_TBN @ W_TNN[:, :begin, :begin]))
                row_TBN.neg_()
        return W_TNN


def squared(W_TNN: Tensor, rows: int | None = None) -> Tensor:
    """W^T W of lower triangular matrices."""
    N = W_TNN.shape[1]
    rows = rows or rows_for(N)
    result_TNN = torch.empty_like(W_TNN)
    for begin in range(0, N, rows):
        stop = min(begin + rows, N)
        row_TBN = result_TNN[:, begin:stop, :stop]
        torch.bmm(W_TNN[:, begin:, begin:stop].mT, W_TNN[:, begin:, :stop], out=row_TBN)
        result_TNN[:, :begin, begin:stop] = row_TBN[:, :, :begin].mT
    return result_TNN
