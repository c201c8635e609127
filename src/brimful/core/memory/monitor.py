"""The peak of a stretch of work, and a sampler of memory, utilisation and power.

CUDA keeps a high-water mark itself. On Linux the kernel keeps one of a process's resident memory, which can be
reset; elsewhere the level before and after has to do. The sampler is a thread that sleeps: it costs well
under 1% of a run (benchmarks/monitor.py measures it).
"""

import contextlib
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Self

import psutil
import torch

from ..base.errors import BrimfulWarning
from ..runs.events import Sampled
from . import devices

_CLEAR = Path("/proc/self/clear_refs")


class Peak:
    """The peak bytes of the work inside the block, counted as a budget counts them.

    Args:
        device: where the work runs.
        baseline: bytes of the process that do not count (a CPU process's level at the start).

    Example:
        >>> import torch
        >>> with Peak(torch.device("cpu")) as peak:
        ...     _ = torch.ones(1000).sum()
        >>> peak.bytes > 0
        True
    """

    def __init__(self, device: torch.device, baseline: int = 0) -> None:
        self.device, self.baseline, self.bytes = device, baseline, 0

    def __enter__(self) -> Self:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        else:
            with contextlib.suppress(OSError):  # not Linux, or a sandbox that forbids it
                _CLEAR.write_text("5")
        return self

    def __exit__(self, *error: object) -> None:
        self.bytes = self.read()

    def read(self) -> int:
        """The peak so far."""
        if self.device.type == "cuda":
            return devices.reserved(self.device, "peak")
        return max(0, devices.peak_resident_bytes() - self.baseline)


class Sampler:
    """Samples a device at intervals, on a thread of its own, for as long as the block is open.

    Args:
        emit: called with each sample, on that thread.
        device: what to sample.
        baseline: bytes of the process that do not count against the budget.
        interval: seconds between samples.
    """

    def __init__(
        self, emit: Callable[[Sampled], None], device: torch.device, baseline: int = 0, interval: float = 0.5
    ) -> None:
        self._emit, self._device, self._baseline, self._interval = emit, device, baseline, interval
        self._use = _nvml(device) if device.type == "cuda" else _processor()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="brimful-sampler", daemon=True)

    def sample(self) -> Sampled:
        """One sample, now. Utilisation and power are None where they cannot be read; of a CPU, utilisation is the share
        of its cores that this process has used since the sample before."""
        process = devices.resident_bytes()
        on_gpu = self._device.type == "cuda"
        used = devices.reserved(self._device) if on_gpu else max(0, process - self._baseline)
        utilisation, watts = self._use()
        return Sampled(used=used, process=process, utilisation=utilisation, watts=watts)

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self._emit(self.sample())
            except Exception as error:  # a lost device or a full disk: the work itself meets it too, and says so
                warnings.warn(f"sampling stopped: {error!r}", BrimfulWarning, stacklevel=2)
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


def _processor() -> Callable[[], tuple[float | None, float | None]]:
    """A reader of (utilisation, None) of this process on the cores that it may use."""
    process = psutil.Process()
    process.cpu_percent()  # from here on

    def read() -> tuple[float | None, float | None]:
        share = _try(lambda: process.cpu_percent() / 100 / cores())
        return None if share is None else min(1.0, share), None

    return read


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _nvml(device: torch.device) -> Callable[[], tuple[float | None, float | None]]:
    """A reader of (utilisation, watts) through the driver's management library, where there is one."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
    except Exception:  # no library, no driver, no card, no permission: this is optional
        return lambda: (None, None)
    return lambda: (
        _try(lambda: float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100),
        _try(lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000),
    )


def _try(read: Callable[[], float]) -> float | None:
    try:
        return read()
    except Exception:  # a card that does not report this
        return None
