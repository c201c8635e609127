"""Kernels for a GPU that cannot be compiled, or are wrong, are not used, and a warning says so."""

import sys
from types import SimpleNamespace

import pytest
import torch

from brimful.core.base.errors import BrimfulWarning
from brimful.programs.batched import gpu

CPU = torch.device("cpu")


def _raises(*_):
    raise RuntimeError("no compiler for this GPU\nand more")


@pytest.fixture
def with_kernel(monkeypatch: pytest.MonkeyPatch):
    """Puts a function in the place of the kernel that is tried first."""

    def use(owners):
        monkeypatch.setattr(gpu, "find_spec", lambda name: object())
        monkeypatch.setitem(sys.modules, f"{gpu.__name__}.rows", SimpleNamespace(owners=owners))
        monkeypatch.setattr(gpu, "rows", SimpleNamespace(owners=owners), raising=False)
        return gpu.kernels_run.__wrapped__(CPU)

    return use


def test_one_that_cannot_be_compiled(with_kernel):
    with pytest.warns(BrimfulWarning, match="no compiler for this GPU; torch does their work"):
        assert not with_kernel(_raises)


def test_one_that_is_wrong(with_kernel):
    with pytest.warns(BrimfulWarning, match="a wrong result"):
        assert not with_kernel(lambda offsets, numbers: torch.zeros(3, dtype=torch.int64))


def test_one_that_is_right(with_kernel):
    assert with_kernel(lambda offsets, numbers: torch.tensor([0, 1, 1]))


def test_out_of_memory_is_no_reason(with_kernel):
    def exhausted(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        with_kernel(exhausted)


def test_without_triton(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gpu, "find_spec", lambda name: None)
    assert not gpu.kernels_run.__wrapped__(CPU)
    assert not gpu.has_kernels(torch.zeros(1))
