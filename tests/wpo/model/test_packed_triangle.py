"""Products with packed triangles, against matrices; the kernels compiled where there is a GPU, else interpreted."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the kernels are defined

from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from brimful.wpo.model import packed_triangle

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def vectors(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@settings(max_examples=40)
@given(K=st.integers(0, 3), B=st.integers(0, 4), d=st.one_of(st.integers(1, 12), st.sampled_from([255, 256, 300])))
def test_products_are_those_of_the_matrices(K: int, B: int, d: int):
    packed, v, w = vectors(K, packed_triangle.size(d)), vectors(K, B, d, seed=1), vectors(K, B, d, seed=2)
    matrix = packed_triangle.lower(packed, d)
    assert packed_triangle.dimensions(packed_triangle.size(d)) == d
    assert torch.equal(matrix, matrix.tril())
    assert torch.equal(packed_triangle.pack(matrix), packed)
    assert torch.equal(matrix.diagonal(dim1=1, dim2=2), packed[:, packed_triangle.diagonal(d)])
    torch.testing.assert_close(packed_triangle.times(packed, v), v @ matrix.mT)
    torch.testing.assert_close(packed_triangle.transposed(packed, v), v @ matrix)
    into, scale = vectors(K, packed_triangle.size(d), seed=3), vectors(K, seed=4)
    expected = into * scale[:, None] + packed_triangle.pack(v.mT @ w + w.mT @ v)
    packed_triangle.outer([(v, w), (w, v)], into, scale)
    torch.testing.assert_close(into, expected)


def test_solving_undoes_the_transposed_product():
    packed = vectors(3, packed_triangle.size(6)).abs() + 1
    v = vectors(3, 5, 6, seed=1)
    torch.testing.assert_close(packed_triangle.transposed(packed, packed_triangle.solve_transposed(packed, v)), v)


@pytest.mark.parametrize(("K", "B", "d"), [(1, 1, 33), (2, 5, 33), (2, 17, 64), (1, 40, 150), (0, 3, 40), (2, 0, 40)])
@pytest.mark.usefixtures("one_thread")
def test_the_kernels_are_the_plain_products(K: int, B: int, d: int):
    kernels = pytest.importorskip("brimful.wpo.model.packed_triangle_triton")
    packed, v, w = (
        each.to(DEVICE)
        for each in (vectors(K, packed_triangle.size(d)), vectors(K, B, d, seed=1), vectors(K, B, d, seed=2))
    )
    cut = kernels.Launch(samples=16, wide=32, deep=16, warps=4, stages=2)
    for launch in (cut, None) if K * B < 20 else (cut,):
        for is_transposed, plain in ((False, packed_triangle.times), (True, packed_triangle.transposed)):
            found = kernels.product(packed.float(), v.float(), is_transposed, launch)
            torch.testing.assert_close(found.double(), plain(packed, v), rtol=1e-5, atol=1e-5)
        into, scale = torch.full_like(packed, 0.5).float(), torch.linspace(-1, 2, K, device=DEVICE)
        kernels.outer([(v.float(), w.float()), (w.float(), v.float())], into, scale, launch or kernels.OUTER)
        expected = torch.full_like(packed, 0.5)
        packed_triangle.outer([(v, w), (w, v)], expected, scale.double())
        torch.testing.assert_close(into.double(), expected, rtol=1e-5, atol=1e-5)


def test_a_split_loses_nothing():
    kernels = pytest.importorskip("brimful.wpo.model.packed_triangle_triton")
    x = torch.cat([vectors(1000).float(), torch.tensor([0.0, -0.0, 1e-30, 3e38])]).to(DEVICE)
    held, rest = kernels.split(x)
    assert torch.equal(held + rest, x)
    assert (rest.abs() <= 2**-11 * x.abs()).all()
