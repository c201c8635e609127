"""Products with packed triangles, against matrices; the kernels run compiled where there is a GPU, else interpreted."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the kernels are defined

from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from brimful.wpo.model import packed_triangle

from ..helpers.oracle import pack

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def vectors(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@settings(max_examples=25)
@given(K=st.integers(0, 3), B=st.integers(0, 4), d=st.one_of(st.integers(1, 12), st.sampled_from([255, 256, 300])))
def test_products_are_those_of_the_matrices(K: int, B: int, d: int):
    packed, v, w = vectors(K, packed_triangle.size(d)), vectors(K, B, d, seed=1), vectors(K, B, d, seed=2)
    matrix = packed_triangle.unpack(packed, d)
    assert torch.equal(matrix, matrix.tril())
    assert torch.equal(pack(matrix), packed)
    assert torch.equal(matrix.diagonal(dim1=1, dim2=2), packed[:, packed_triangle.diagonal_indices(d)])
    torch.testing.assert_close(packed_triangle.product(packed, v), v @ matrix.mT)
    torch.testing.assert_close(packed_triangle.product(packed, v, transposed=True), v @ matrix)
    into, scale = vectors(K, packed_triangle.size(d), seed=3), vectors(K, seed=4)
    expected = into * scale[:, None] + pack(v.mT @ w + w.mT @ v)
    packed_triangle.outer_(into, scale, [(v, w), (w, v)])
    torch.testing.assert_close(into, expected)


@pytest.mark.parametrize(
    ("K", "B", "d"),
    [
        (1, 1, 33),
        (0, 3, 40),
        (2, 0, 40),
        *(pytest.param(*sizes, marks=pytest.mark.soak) for sizes in ((2, 5, 33), (2, 17, 64), (1, 40, 150))),
    ],
)
@pytest.mark.usefixtures("one_thread")
def test_the_kernels_match_the_plain_products(K: int, B: int, d: int):
    kernels = pytest.importorskip("brimful.wpo.model.packed_triangle_triton")
    shapes = ((K, packed_triangle.size(d)), (K, B, d), (K, B, d))
    packed, v, w = (vectors(*shape, seed=seed).to(DEVICE) for seed, shape in enumerate(shapes))
    small = kernels.Launch(samples=16, block_n=32, block_k=16, warps=4, stages=2)
    for launch in (small, None) if 0 < K * B < 20 else (small,):
        for transposed in (False, True):
            found = kernels.product(packed.float(), v.float(), transposed, launch)
            wanted = packed_triangle.product(packed, v, transposed)
            torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
        into, scale = torch.full_like(packed, 0.5).float(), torch.linspace(-1, 2, K, device=DEVICE)
        kernels.outer_(into, scale, [(v.float(), w.float()), (w.float(), v.float())], launch)
        wanted = torch.full_like(packed, 0.5)
        packed_triangle.outer_(wanted, scale.double(), [(v, w), (w, v)])
        torch.testing.assert_close(into.double(), wanted, rtol=1e-5, atol=1e-5)


def test_a_split_loses_nothing():
    kernels = pytest.importorskip("brimful.wpo.model.packed_triangle_triton")
    x = torch.cat([vectors(1000).float(), torch.tensor([0.0, -0.0, 1e-30, 3e38])]).to(DEVICE)
    high, low = kernels.split(x)
    assert torch.equal(high + low, x)
    assert (low.abs() <= 2**-11 * x.abs()).all()
