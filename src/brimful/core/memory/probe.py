"""The memory probe: a few small real runs, the peak of each, and the cost that follows from them.

`probe` chooses the sizes and fits the cost; what a run is, and how its peak is read, the caller says: `peak_bytes` for
runs so small that the resident set of a CPU process would tell nothing of them, `monitor.Peak` around larger ones.
"""

import contextlib
import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from . import devices, monitor
from .cost import Cost
from .oom import OutOfMemory, clear_frames, error_line, is_out_of_memory


def probe(
    peak: Callable[[int], float],
    first: int,
    following: Callable[[Cost, int], int | None],
    device: torch.device,
    weigh: Callable[[int], float] = float,
) -> Cost:
    """The cost of a step by its size, through the peaks of the two largest runs.

    A size that runs out of memory is halved, until it fits or is no larger than one that was measured already.

    Args:
        peak: runs a step of that size for real, and returns its peak in bytes.
        first: the first size to run, at least 1.
        following: the size to run next, given the cost so far and the size last run. None, or a size that is no
            larger, ends the probe.
        device: where it runs; its allocator's cache is emptied before each run.
        weigh: the weight of a step of that size; the cost is by weight.

    Raises:
        OutOfMemory: not even a step of size 1 fits.

    Example:
        >>> cost = probe(lambda size: 100 + 8 * size, 2, lambda cost, size: min(2 * size, 8), torch.device("cpu"))
        >>> cost.fixed, cost.per_unit, cost.source
        (100.0, 8.0, 'probe')
    """
    samples: list[tuple[float, float]] = []
    largest, size = 0, first
    while size > largest:
        reason = None
        devices.release_cache(device)
        try:
            samples.append((weigh(size), float(peak(size))))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            clear_frames(error)
            reason = error_line(error)
        if reason is None:
            largest = size
            size = following(Cost.fit(samples[-2:]), size) or 0
        elif size == 1:
            raise OutOfMemory(reason)
        else:
            size //= 2
    devices.release_cache(device)
    return Cost.fit(samples[-2:])


def peak_bytes(work: Callable[[], object], device: torch.device, reserved: bool = False) -> int:
    """The bytes that a small piece of work takes at its peak, beyond what was in use before.

    On CUDA by the allocator's own count. On a CPU by the tensors that are alive, since the resident set of the process
    says little of so small a run; a compiled function is then run as it was written.

    Args:
        work: what to run.
        device: where it runs.
        reserved: on CUDA count the blocks that the allocator reserves, as a budget does, and not the bytes in use in
            them. Of very small runs they would tell the size of a block, and no more.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        now, most = (
            (torch.cuda.memory_reserved, torch.cuda.max_memory_reserved)
            if reserved
            else (torch.cuda.memory_allocated, torch.cuda.max_memory_allocated)
        )
        before = now(device)
        work()
        torch.cuda.synchronize(device)
        return max(0, most(device) - before)
    with _eager(), LiveBytes() as live:
        work()
    return live.peak


def resident_peak(work: Callable[[], object]) -> int:
    """The bytes by which a CPU process grows at the peak of a piece of work: what tensors take and what the C library
    keeps of those that were freed. Only for work that takes megabytes, and that ran before, on less: libraries that
    it loads would count as well."""
    devices.trim_heap()
    with monitor.Peak(torch.device("cpu"), devices.resident_bytes()) as peak:
        work()
    return peak.bytes


def start_up_bytes(work: Callable[[], object]) -> int:
    """The bytes by which a CPU process stays larger after a piece of work, other than by tensors that live on: the
    libraries and the compiled code that its first run loads."""
    devices.trim_heap()
    before = devices.resident_bytes()
    with _eager(), LiveBytes() as live:
        work()
    devices.trim_heap()
    return max(0, devices.resident_bytes() - before - live.now)


def _eager() -> contextlib.AbstractContextManager[object]:
    """With a compiled function the counting would be compiled too."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else contextlib.nullcontext()


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of the tensors that operations make, for as long as they live."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._counted: set[int] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is compiled, and saying so to the compiler would import it, for seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs = {leaf.untyped_storage()._cdata for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        outputs = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(outputs):
            if isinstance(leaf, Tensor):
                self._count(leaf.untyped_storage(), inputs)
        return outputs

    def _count(self, storage: torch.UntypedStorage, inputs: set[int]) -> None:
        address, size = storage._cdata, storage.nbytes()
        if address in self._counted or address in inputs:
            return
        self._counted.add(address)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._freed, address, size)

    def _freed(self, address: int, size: int) -> None:
        self._counted.discard(address)
        self.now -= size
