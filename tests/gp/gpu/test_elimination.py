"""Factors and inverses by blocks against torch's: compiled where there is a GPU, interpreted where there is none."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the kernel is defined

pytest.importorskip("triton")

from brimful.gp.gpu.elimination import BlockFactor, squared

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def draw(matrices: int, rows: int) -> torch.Tensor:
    """Covariances of points close together, with little noise."""
    generator = torch.Generator().manual_seed(rows)
    x = torch.rand(matrices, rows, 1, generator=generator, dtype=torch.float64)
    K = torch.exp(-20 * (x - x.mT).square()) + 1e-5 * torch.eye(rows, dtype=torch.float64)
    return K.to(DEVICE)


@pytest.mark.parametrize(("rows", "block"), [(1, 64), (16, 16), (17, 64), (23, 8), (40, 16)])
def test_blocks_are_what_torch_makes_of_the_whole(rows: int, block: int):
    K = draw(3, rows)
    L = torch.linalg.cholesky(K)
    factor = BlockFactor.of_(K.clone(), block)
    assert factor.good_T.tolist() == [True] * 3
    torch.testing.assert_close(factor.logdet_T, torch.logdet(K), rtol=1e-9, atol=1e-9)
    columns = torch.randn(3, 2, rows, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    solved = factor.solve_rows_(columns.clone())
    torch.testing.assert_close(solved.mT, torch.linalg.solve_triangular(L, columns.mT, upper=False))
    W = factor.invert_()
    assert torch.equal(W, W.tril())
    identity = torch.eye(rows, dtype=torch.float64, device=DEVICE).expand(3, -1, -1)
    torch.testing.assert_close(W @ L, identity, rtol=0, atol=1e-8)
    torch.testing.assert_close(squared(W, block), W.mT @ W)


@pytest.mark.parametrize("where", [0, 5, 19])
def test_which_are_not_positive_definite(where: int):
    """Not positive definite, NaN or infinite: that one alone."""
    K = draw(5, 20)
    K[1, where, where] = -1.0
    K[2, where, :] = K[2, :, where] = torch.nan
    K[3, where, where] = torch.inf
    wanted = torch.linalg.cholesky(K[[0, 4]])
    factor = BlockFactor.of_(K, 8)
    assert factor.good_T.tolist() == [True, False, False, False, True]
    inverse = factor.invert_()[[0, 4]]
    torch.testing.assert_close(inverse @ wanted, torch.eye(20).to(K).expand(2, -1, -1), rtol=0, atol=1e-8)


def test_of_no_matrices():
    factor = BlockFactor.of_(torch.zeros(0, 70, 70, dtype=torch.float64, device=DEVICE))
    assert len(factor.good_T) == len(factor.logdet_T) == len(squared(factor.invert_())) == 0
