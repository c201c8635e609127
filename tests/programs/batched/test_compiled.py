"""Compiled loops, and machines where nothing can be compiled."""

import numpy as np
import pytest
import torch

from brimful.programs.batched import compiled


@pytest.fixture(autouse=True)
def forgotten():
    """What is known of this machine's compiler, before and after."""
    compiled.compiles.cache_clear()
    yield
    compiled.compiles.cache_clear()


def test_loops_run_on_the_cpu_alone():
    assert compiled.usable(torch.zeros(1))
    assert not compiled.usable(torch.zeros(1, device="meta"))


def test_without_numba_plain_torch_runs_and_a_warning_says_so(monkeypatch):
    monkeypatch.setattr(compiled, "numba", None)
    with pytest.warns(UserWarning, match="numba is not installed; the batched executor runs in plain torch"):
        assert not compiled.usable(torch.zeros(1))
    assert not compiled.usable(torch.zeros(1))  # and only once


def test_a_compiler_that_fails_is_no_failure_of_the_run(monkeypatch):
    def broken(numbers):
        raise RuntimeError("no code for this processor")

    monkeypatch.setattr(compiled, "_one_more", broken)
    with pytest.warns(UserWarning, match="no code for this processor; the batched executor runs in plain torch"):
        assert not compiled.usable(torch.zeros(1))


@compiled.jit
def _named(number):
    return globals()["np"].int64(number)  # nothing that numba compiles


@compiled.jit
def _of_all(numbers):
    out = np.empty_like(numbers)
    for at in range(len(numbers)):
        out[at] = -_named(numbers[at])
    return out


def test_python_runs_a_loop_with_all_that_it_calls_and_numbers_wrap_around(monkeypatch):
    monkeypatch.setattr(compiled, "numba", None)
    least = -(2**63)
    with pytest.warns(UserWarning, match="numba is not installed"):
        assert compiled.on_host(_of_all)(np.array([1, least])).tolist() == [-1, least]
