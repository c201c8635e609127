"""The devices of this machine: what their names mean and what memory they have now."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ..base.errors import DeviceError
from . import garbage
from .host import Memory, c_library, host_memory, processor_name
from .host import peak_resident_bytes as peak_resident_bytes
from .host import resident_bytes as resident_bytes
from .host import trim_heap as trim_heap

DeviceLike = str | int | torch.device | Sequence[str | int | torch.device] | None
"""Whatever `resolve_all` reads: one device, or several."""

_IDLE = 32_000_000  # bytes kept on a GPU and not used, of which there is always a little


def resolve(device: str | int | torch.device | None = "auto") -> torch.device:
    """`"auto"` (the first GPU, or the CPU), `"cpu"`, `"cuda"`, `"cuda:1"` or `"1"` as a device that exists here."""
    if str(device).isdigit():
        device = f"cuda:{device}"
    if device is None or device == "auto":
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    try:
        named = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise DeviceError(f"device {device!r} is not a device name; use 'auto', 'cpu', 'cuda' or 'cuda:1'") from error
    if named.type == "cpu":
        return torch.device("cpu")
    if named.type != "cuda":
        raise DeviceError(f"device {device!r} is of a kind Brimful does not run on; use 'auto', 'cpu' or 'cuda'")
    count = torch.cuda.device_count()
    index = named.index or 0
    if index >= count:
        raise DeviceError(
            f"device {device!r} is not here: this process sees {count} CUDA device(s). "
            "Use 'auto' or 'cpu', or see what `brimful doctor` finds."
        )
    return torch.device("cuda", index)


def resolve_all(device: DeviceLike = "auto") -> list[torch.device]:
    """One or several devices: also `"cuda:all"`, `"cuda:0,cuda:1"`, `"0,1"` or a list. A CPU may be named twice."""
    if device == "cuda:all":
        return [torch.device("cuda", index) for index in range(torch.cuda.device_count())] or [resolve("cuda")]
    if isinstance(device, str):
        names: Sequence[str | int | torch.device | None] = [part.strip() for part in device.split(",")]
    else:
        names = [device] if device is None or isinstance(device, int | torch.device) else list(device)
    if not names:
        raise DeviceError("an empty list of devices; name at least one, such as 'auto'")
    devices = [resolve(name) for name in names]
    gpus = [device for device in devices if device.type == "cuda"]
    if len(set(gpus)) < len(gpus):
        raise DeviceError(f"devices {[str(device) for device in devices]} name one GPU twice; name each once")
    return devices


def memory(device: torch.device) -> Memory:
    """The device's memory now."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return Memory(total=total, free=free, own=reserved(device))
    return host_memory()


def reserved(device: torch.device, which: str = "current") -> int:
    """Bytes of a GPU that the allocator holds, now or at their peak."""
    return _allocator(device, "reserved_bytes", which)


def allocated(device: torch.device) -> int:
    """Those of them that tensors take."""
    return _allocator(device, "allocated_bytes", "current")


def _allocator(device: torch.device, what: str, which: str) -> int:
    # As torch.cuda.memory_reserved, which makes some hundred numbers of one, and takes half a millisecond.
    stats = torch.cuda.memory_stats_as_nested_dict(device)
    return int(stats[what]["all"][which]) if stats else 0


def allocator_retries(device: torch.device) -> int:
    """How often a GPU's allocator had to free what it kept, and try again."""
    return int(torch.cuda.memory_stats_as_nested_dict(device).get("num_alloc_retries", 0))


def free_garbage() -> None:
    """Frees what only cycles of references hold, and hands it back."""
    garbage.collect()
    trim_heap()


@contextlib.contextmanager
def kept_heap(device: torch.device) -> Iterator[None]:
    """While it is open, the C library keeps freed memory for the next large array (glibc), where the work is on a CPU;
    then it hands it back. Without it every array of more than some megabytes is made of new pages, which the system
    clears one by one."""
    library = c_library() if device.type == "cpu" else None
    if not hasattr(library, "mallopt"):
        yield
        return
    assert library is not None
    try:
        library.mallopt(_MMAP_THRESHOLD, _LARGEST_THRESHOLD)
        library.mallopt(_TRIM_THRESHOLD, _LARGEST_THRESHOLD)
        yield
    finally:
        library.mallopt(_MMAP_THRESHOLD, _USUAL_THRESHOLD)
        library.mallopt(_TRIM_THRESHOLD, 2 * _USUAL_THRESHOLD)
        trim_heap()


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as glibc's malloc.h numbers them
_LARGEST_THRESHOLD, _USUAL_THRESHOLD = 2**31 - 1, 32 * 2**20  # the second is what glibc itself goes up to


@functools.cache
def transfer_streams(device: torch.device) -> tuple[Any, Any]:
    """Streams for moves to a GPU and from it, the same ones for all work: the allocator keeps memory for each stream.
    On a CPU there are none."""
    return (torch.cuda.Stream(device), torch.cuda.Stream(device)) if device.type == "cuda" else (None, None)


def release_cache(device: torch.device) -> None:
    """Hands memory that the allocator keeps on a GPU, and nothing uses, back to it.

    The space that matrix products work in stays for as long as the process, and may have been carved out of a far
    larger block, which then stays too. So where much is kept and little used, that space goes as well; the next
    product makes it anew. Not while there are captured graphs: what they were captured with must stay.
    """
    if device.type != "cuda":
        return
    torch.cuda.empty_cache()
    idle = reserved(device) - allocated(device)
    if idle > _IDLE and not _graphs():
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()


_left: dict[torch.device, tuple[object, int, int, int]] = {}
"""The work that used a GPU last, how often in a row, and the allocator's bytes when it ended."""


def leave(device: torch.device, work: object) -> None:
    """Notes that some work has ended which had a GPU's allocator to itself."""
    if device.type == "cuda":
        before, times, *_ = _left.get(device, (None, 0))
        _left[device] = (work, times + 1 if before == work else 1, reserved(device), allocated(device))


def is_as_left(device: torch.device, work: object) -> bool:
    """Whether the allocator has, to the byte, what that work left: it takes just that again, so that its peak is right
    although nothing was handed back before. Not after the first time, which may have taken what no later one does."""
    before, times, *held = _left.get(device, (None, 0))
    return before == work and times > 1 and held == [reserved(device), allocated(device)]


def _graphs() -> bool:
    """Whether any memory is that of captured graphs."""
    return any(tuple(segment["segment_pool_id"]) != (0, 0) for segment in torch.cuda.memory_snapshot())


def model_name(device: torch.device) -> str:
    """The device's product name, by which measurements are remembered: `NVIDIA H200`, `CPU x86_64`."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name()
