"""Out of memory: how it is told from other failures, and the attempt that is made again with less."""

import weakref

import pytest
import torch

from brimful import BudgetError
from brimful.core.memory.oom import OutOfMemory, is_device_lost, is_out_of_memory, retry_smaller

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OutOfMemory("too large"),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
        RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_out_of_memory_has_many_names(error: Exception):
    assert is_out_of_memory(error) and not is_device_lost(error)


def test_only_the_first_line_of_an_error_counts():
    lost = RuntimeError("CUDA error: an illegal memory access was encountered\nnot out of memory")
    assert is_device_lost(lost) and not is_out_of_memory(lost)
    assert not is_out_of_memory(ValueError("out of memory"))


class Held:
    """Something that an attempt holds."""


def test_a_smaller_attempt_follows_and_the_failed_one_is_freed():
    size, freed = 8, []

    def attempt() -> int:
        held = Held()
        weakref.finalize(held, freed.append, size)
        if size > 2:
            raise OutOfMemory("too large")
        return size

    def shrink() -> bool:
        nonlocal size
        assert freed[-1] == size  # before the next attempt begins
        size //= 2
        return size > 0

    assert retry_smaller(attempt, shrink, CPU, "one item", "Use a larger budget.") == 2
    assert freed == [8, 4, 2]


def test_the_smallest_attempt_gives_up_with_the_reason():
    def attempt() -> None:
        raise MemoryError("no room")

    with pytest.raises(BudgetError, match=r"one item does not fit: MemoryError: no room\. Use a larger budget\."):
        retry_smaller(attempt, lambda: False, CPU, "one item", "Use a larger budget.")


def test_other_failures_are_not_tried_again():
    def attempt() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        retry_smaller(attempt, lambda: pytest.fail("shrunk"), CPU, "one item", "")
