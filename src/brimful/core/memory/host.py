"""The memory of the host, and of this process; needs no torch."""

import os
from dataclasses import dataclass

import psutil

from . import cgroup


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


def processor_name() -> str:
    return f"CPU {os.uname().machine}"
