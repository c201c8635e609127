"""Telling out of memory from other failures, and trying again with less where memory ran out."""

import math
import sys
import time
import traceback
from collections.abc import Callable
from typing import TypeVar

import torch

from ..base.errors import BudgetError
from . import devices, garbage

Returned = TypeVar("Returned")

_LONGEST = 1000  # characters of a message

_FULL = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "cublas_status_alloc_failed",
    "cusolver_status_alloc_failed",
    "cufft_alloc_failed",
    "cudaerrormemoryallocation",
)
_LOST = (
    "device-side assert",
    "illegal memory access",
    "illegal instruction",
    "misaligned address",
    "unspecified launch failure",
    "hardware stack error",
    "an illegal memory",
    "cuda error: launch timed out",
    "uncorrectable ecc",
    "gpu is lost",
)


class OutOfMemory(Exception):
    """A batch did not fit the memory there was."""


class InseparableBatch(OutOfMemory):
    """A batch fails though none of its items does alone: like one that does not fit, it is tried again in halves."""


def retry_smaller(
    attempt: Callable[[], Returned],
    shrink: Callable[[], bool],
    device: torch.device,
    smallest: str = "the smallest part",
    advice: str = "Use a larger budget.",
) -> Returned:
    """What an attempt returns; where it runs out of memory, it is made smaller and tried again.

    Before each further attempt all that the failed one holds is freed: the tensors in its frames and in reference
    cycles, and the allocator's cache.

    Args:
        attempt: the work, at the size it has by now.
        shrink: undoes what the failed attempt left behind and makes the next one smaller; False where it is as small
            as can be. It may also wait for memory, or raise, where that is not to be a `BudgetError`.
        device: where it runs.
        smallest: the smallest attempt, such as "a micro-batch of one sample", for the error.
        advice: what to do about it, as a sentence.

    Raises:
        BudgetError: not even the smallest attempt fits.

    Example:
        >>> sizes = [4]
        >>> def attempt():
        ...     if sizes[0] > 1:
        ...         raise MemoryError
        ...     return sizes[0]
        >>> def shrink():
        ...     sizes[0] //= 2
        ...     return sizes[0] > 0
        >>> retry_smaller(attempt, shrink, torch.device("cpu"), "one item", "Use a larger budget.")
        1
    """
    while True:
        try:
            return attempt()
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            clear_frames(error)
            reason = error_line(error)
        if not shrink():
            raise BudgetError(f"{smallest} does not fit: {reason}. {advice}")
        _collect_garbage()
        devices.release_cache(device)


_last_collection = [-math.inf, 0.0]  # when it ended, and the seconds it took


def _collect_garbage() -> None:
    """Frees what reference cycles hold; not so often that it would take most of the time."""
    ended, took = _last_collection
    begun = time.monotonic()
    if begun - ended > 10 * took:
        garbage.collect()
        _last_collection[:] = time.monotonic(), time.monotonic() - begun


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out."""
    if isinstance(error, OutOfMemory | MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and _says(error, _FULL)


def is_device_lost(error: BaseException) -> bool:
    """Whether an exception says that the CUDA context can no longer be used by this process."""
    return isinstance(error, RuntimeError) and not is_out_of_memory(error) and _says(error, _LOST)


def _says(error: BaseException, signs: tuple[str, ...]) -> bool:
    """Looks at the first line only: CUDA's advice below it speaks of device-side asserts whatever went wrong."""
    first = error_line(error, named=False).lower()
    return any(sign in first for sign in signs)


def clear_frames(error: BaseException) -> None:
    """Lets go of the tensors that the frames of a traceback hold, or memory would stay full."""
    seen: BaseException | None = error
    past: set[int] = set()  # `raise error from error` leads back to itself
    while seen is not None and id(seen) not in past:
        past.add(id(seen))
        traceback.clear_frames(seen.__traceback__)
        seen = seen.__cause__ or seen.__context__


def drop_traceback(error: BaseException) -> None:
    """For an error that nobody will see but for its text: its frames lead to those of who called, and so to the batch,
    in a cycle of references that only a garbage collection would end. An exception that the caller is handling, to
    which the error leads, keeps its own."""
    for seen in _chain(error):
        seen.__traceback__ = None


class DroppedTraceback:
    """A context manager at whose end an error's traceback is dropped. Where that very error is raised it has the frames
    of before, though others like it, of the same cause, were dropped meanwhile."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __enter__(self) -> None:
        self._before = [(seen, seen.__traceback__) for seen in _chain(self._error)]  # and not what is raised meanwhile

    def __exit__(self, kind: object, raised: BaseException | None, frames: object) -> None:
        for seen, before in self._before:
            seen.__traceback__ = before if raised is self._error else None
        self._before.clear()


def _chain(error: BaseException) -> list[BaseException]:
    """An error and what led to it, up to what the caller is handling: `raise error from error` leads back to itself."""
    chain, seen = list[BaseException](), error
    past = {id(sys.exception())}
    while seen is not None and id(seen) not in past:
        past.add(id(seen))
        chain.append(seen)
        seen = seen.__cause__ or seen.__context__
    return chain


def error_line(error: BaseException, named: bool = True) -> str:
    """An exception as one line for a result's message, whatever its own text does; `named`: with its type."""
    try:
        line = as_text(next(iter(str(error).strip().splitlines()), ""))
    except Exception as wrong:
        line = f"its text cannot be read: {type(wrong).__name__}"
    return line if not named else f"{type(error).__name__}: {line}" if line else type(error).__name__


def as_text(message: object) -> str:
    """A message that can be stored: valid Unicode, and no longer than anybody reads."""
    text = str(message).encode("utf-8", "replace").decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
