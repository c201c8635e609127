"""`--verify`: a difference between executors is an error that names the sample, the operation and both values."""

from typing import Any

import numpy as np
import pytest
import torch

from brimful import BrimfulWarning, programs
from brimful.data import Ragged
from brimful.programs.batched import kernels
from brimful.programs.batched.columns import Ints
from brimful.programs.batched.kernels import Computed
from brimful.programs.execution.arguments import Arguments
from brimful.programs.executors import comparison
from brimful.programs.executors.choice import CPU
from brimful.programs.outcomes import Outcomes
from brimful.programs.verify import VerificationError, verify

from .helpers.small import TEXT, small, tasks
from .test_run import same


def wrong_cells(machine: Any, grids: Any) -> Computed:
    """vmirror, broken on purpose: it gives the grids as they are."""
    return Computed(grids)


def wrong_failure(machine: Any, container: Any, function: Any) -> Computed:
    """argmax, broken on purpose: it fails everywhere, and with another category."""
    rows = container.rows
    blank = Ints(torch.zeros(rows, dtype=torch.int64))
    return Computed(blank, torch.full((rows,), 4, dtype=torch.int8))


def test_both_executors_and_the_emitted_module_agree():
    assert verify(small().outcomes, 100) == 15
    assert verify(small(on_error="propagate").outcomes, 6, on_error="propagate") == 6
    assert verify(small(pair_by_name=True, executor="batched").outcomes, 15, pair_by_name=True) == 15


def test_a_wrong_value_is_named(monkeypatch: pytest.MonkeyPatch):
    outcomes = small(executor="sequential").outcomes
    monkeypatch.setitem(kernels.KERNELS, "vmirror", wrong_cells)
    expected = r"(mirror|blank|third) (train|test) \d: vmirror \(node 1\) gives \(\("
    with pytest.raises(VerificationError, match=expected) as raised:
        verify(outcomes, 15)
    assert "sequentially, and ((" in str(raised.value) and "batched" in str(raised.value)


def test_a_difference_among_later_samples_names_its_sample(monkeypatch: pytest.MonkeyPatch):
    same_both_ways, other = ((1, 2, 1),), ((1, 2, 3),)
    samples = [Arguments(str(number), (), grid, ()) for number, grid in enumerate([same_both_ways] * 5 + [other])]
    graph = programs.loads("def solve_x(I):\n    x1 = vmirror(I)\n    return x1\n").merge()
    monkeypatch.setattr(comparison, "_AT_ONCE", 2)
    assert comparison.first_difference(graph, "default", samples, CPU) is None
    monkeypatch.setitem(kernels.KERNELS, "vmirror", wrong_cells)
    found = comparison.first_difference(graph, "default", samples, CPU)
    assert found is not None and (found.sample, found.operation) == (5, "vmirror")


def test_a_wrong_failure_is_named(monkeypatch: pytest.MonkeyPatch):
    outcomes = small(executor="sequential").outcomes
    monkeypatch.setitem(kernels.KERNELS, "argmax", wrong_failure)
    with pytest.raises(VerificationError, match=r"argmax .* after IndexError, and its default batched"):
        verify(outcomes, 15)


def test_what_a_run_has_stored_is_compared(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as broken:
        broken.setitem(kernels.KERNELS, "vmirror", wrong_cells)
        wrong = small(executor="batched")
    with pytest.raises(VerificationError, match="solve_mirror is OK, wrong in the run, and OK, right sequentially"):
        verify(wrong.outcomes, 15)
    right = small().outcomes
    whole = right.values()
    changed = whole.values.clone()
    changed[-3] ^= 1  # the last cell of the last grid
    other = Outcomes(right.programs, right.samples, [*right.flags()], lambda: Ragged(changed, whole.offsets))
    with pytest.raises(VerificationError, match=r"solve_fails returns .* in the run, and .* sequentially"):
        verify(other, 15)
    assert np.array_equal(right.status, small().outcomes.status)


def test_a_kernel_that_raises_is_given_up_and_named(monkeypatch: pytest.MonkeyPatch):
    plain = small(executor="sequential")

    def broken(machine: Any, *columns: Any) -> Computed:
        raise RuntimeError("cannot be compiled")

    monkeypatch.setitem(kernels.KERNELS, "vmirror", broken)
    with pytest.warns(BrimfulWarning, match="the batched form of vmirror failed: RuntimeError: cannot be compiled"):
        result = small(executor="batched")
    assert same(result, plain)
    row = next(row for row in result.operations.to_pylist() if row["operation"] == "vmirror")
    assert (row["rows"], row["rows_sequential"], row["problem"]) == (15, 15, "RuntimeError: cannot be compiled")


def test_a_kernel_that_runs_out_of_memory_is_not_given_up(monkeypatch: pytest.MonkeyPatch):
    plain, calls = kernels.KERNELS["vmirror"], list[int]()

    def hungry(machine: Any, column: Any) -> Computed | None:
        calls.append(column.rows)
        if column.rows > 4:
            raise torch.OutOfMemoryError("out of memory")
        return plain(machine, column)

    monkeypatch.setitem(kernels.KERNELS, "vmirror", hungry)
    result = programs.run(programs.loads(TEXT), tasks(), executor="batched", device="cpu", progress=False)
    assert same(result, small(executor="sequential")) and max(calls) > 4 and calls[-1] <= 4
    assert result.usage.operations["vmirror"].problem == ""
