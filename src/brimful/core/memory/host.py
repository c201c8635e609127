"""The memory of the host, and of this process; needs no torch."""

import contextlib
import ctypes
import os
from dataclasses import dataclass

import psutil

from . import cgroup

_ARENA_MAX = -8  # as glibc's malloc.h numbers it


@dataclass(frozen=True, slots=True)
class Memory:
    """A device's memory at one moment, in bytes.

    Attributes:
        total: what the device has. On a CPU, the host's or the container's, whichever is smaller.
        free: what nobody holds now.
        own: what this process holds: on CUDA the allocator's reserved bytes (the driver's context excluded),
            on a CPU the resident set.
    """

    total: int
    free: int
    own: int


def host_memory() -> Memory:
    """The host's memory now, or that of the container where it is less."""
    host = psutil.virtual_memory()
    limit = cgroup.read()
    return Memory(
        total=min(host.total, limit.total) if limit else host.total,
        free=min(host.available, limit.free) if limit else host.available,
        own=resident_bytes(),
    )


def resident_bytes() -> int:
    """The resident set of this process in bytes."""
    return psutil.Process().memory_info().rss


def trim_heap() -> None:
    """Hands freed memory that the C library keeps back to the system, where it can (glibc)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def share_heap() -> None:
    """Lets threads that are started from here on take memory from the heap that is there (glibc). By default each has
    one of its own, up to eight per core, and each keeps the most that its thread ever needed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def processor_name() -> str:
    return f"CPU {os.uname().machine}"
