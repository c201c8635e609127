"""The memory of the host, and of this process; needs no torch."""

import contextlib
import ctypes
import functools
import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from . import cgroup

_STATUS = Path("/proc/self/status")
_ARENA_MAX = -8  # as glibc's malloc.h numbers it


@dataclass(frozen=True, slots=True)
class Memory:
    """A device's memory at one moment, in bytes.

    Attributes:
        total: what the device has. On a CPU, the host's or the container's, whichever is smaller.
        free: what nobody holds now.
        own: what this process holds: on CUDA the allocator's reserved bytes (the driver's context excluded),
            on a CPU its resident memory, mapped files excluded.
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
    """The resident memory of this process in bytes, without the pages of mapped files: libraries, and data that is read
    through a memory map. The kernel takes those back when memory is short, and maps as many at a time as it likes, some
    2 MB for one instruction, so that a process would seem to grow by its use of libraries alone."""
    try:
        text = _STATUS.read_text()
        return _field(text, "RssAnon") + _field(text, "RssShmem")
    except (OSError, ValueError):  # not Linux
        return psutil.Process().memory_info().rss


def peak_resident_bytes() -> int:
    """The most that `resident_bytes` was since the kernel's high-water mark was reset; its level where there is none.
    The mark counts mapped files too: it is taken that those mapped by now were mapped at the peak."""
    try:
        text = _STATUS.read_text()
        return max(_field(text, "VmHWM") - _field(text, "RssFile"), _field(text, "RssAnon") + _field(text, "RssShmem"))
    except (OSError, ValueError):
        return resident_bytes()


def _field(status: str, name: str) -> int:
    start = status.index(f"{name}:") + len(name) + 1
    return int(status[start : status.index("kB", start)]) * 1024


@functools.cache
def c_library() -> ctypes.CDLL:
    """The C library of this process."""
    return ctypes.CDLL(None)


def trim_heap() -> None:
    """Hands freed memory that the C library keeps back to the system, where it can (glibc)."""
    with contextlib.suppress(OSError, AttributeError):
        c_library().malloc_trim(0)


def share_heap() -> None:
    """Lets threads that are started from here on take memory from the heap that is there (glibc). By default each has
    one of its own, up to eight per core, and each keeps the most that its thread ever needed."""
    with contextlib.suppress(OSError, AttributeError):
        c_library().mallopt(_ARENA_MAX, 1)


def processor_name() -> str:
    return f"CPU {os.uname().machine}"
