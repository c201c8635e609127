"""Watching: the peak of a stretch of work, and a sampler of memory, utilisation and power.

CUDA keeps a high-water mark itself. On Linux the kernel keeps one of a process's resident set, which can be
reset; elsewhere the level before and after has to do. The sampler is a thread that sleeps: it costs well
under 1% of a run (benchmarks/monitor.py measures it).
"""

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch

from ..base.errors import BrimfulWarning
from ..runs.events import Events, Sampled
from . import devices

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_MOST_SAMPLES = 2_000


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
            _reset_high_water()
        return self

    def __exit__(self, *error: object) -> None:
        self.bytes = self.read()

    def read(self) -> int:
        """The peak so far."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_reserved(self.device)
        return max(0, _high_water() - self.baseline)


def _reset_high_water() -> None:
    with contextlib.suppress(OSError):  # not Linux, or a sandbox that forbids it
        _CLEAR.write_text("5")


def _high_water() -> int:
    try:
        text = _STATUS.read_text()
        start = text.index("VmHWM:") + 6
        return int(text[start : text.index("kB", start)]) * 1024
    except (OSError, ValueError):
        return devices.resident_bytes()


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a device: seconds since the sampler started, and what was seen then.

    Attributes:
        used: bytes that count against the budget.
        process: the process's resident set.
        utilisation: share of time the GPU was busy, 0 to 1; None where nobody can tell.
        watts: the GPU's power draw; None where nobody can tell.
    """

    seconds: float
    used: int
    process: int
    utilisation: float | None = None
    watts: float | None = None


class Sampler:
    """Samples a device in the background until closed.

    A long run does not grow it: past 2,000 samples every second one is dropped and the interval doubles.

    Args:
        device: what to watch.
        baseline: bytes of the process that do not count against the budget.
        interval: seconds between samples.
        on_sample: called with each sample, on the sampler's thread.
    """

    def __init__(
        self,
        device: torch.device,
        baseline: int = 0,
        interval: float = 0.25,
        on_sample: Callable[[Sample], None] | None = None,
    ) -> None:
        self.samples: list[Sample] = []
        self._device, self._baseline, self._interval = device, baseline, interval
        self._on_sample = on_sample
        self._gpu = _nvml(device)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="brimful-sampler", daemon=True)

    def look(self, seconds: float = 0.0) -> Sample:
        """One sample, now."""
        process = devices.resident_bytes()
        if self._device.type == "cuda":
            used = torch.cuda.memory_reserved(self._device)
            return Sample(seconds, used, process, *(self._gpu() if self._gpu else (None, None)))
        return Sample(seconds, max(0, process - self._baseline), process)

    def _watch(self) -> None:
        started = time.monotonic()
        while not self._stop.wait(self._interval):
            try:
                sample = self.look(time.monotonic() - started)
                self.samples.append(sample)
                if self._on_sample:
                    self._on_sample(sample)
            except Exception as error:  # a lost device or a full disk: the work itself meets it too, and says so
                warnings.warn(f"sampling stopped: {error!r}", BrimfulWarning, stacklevel=2)
                return
            if len(self.samples) > _MOST_SAMPLES:
                del self.samples[::2]
                self._interval *= 2

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


@contextlib.contextmanager
def sampling(events: Events, device: torch.device, baseline: int) -> Iterator[None]:
    """Watches the device, and tells what it sees."""

    def tell(sample: Sample) -> None:
        events.emit(
            Sampled(used=sample.used, process=sample.process, utilisation=sample.utilisation, watts=sample.watts)
        )

    with Sampler(device, baseline, interval=0.5, on_sample=tell):
        yield


def _nvml(device: torch.device) -> Callable[[], tuple[float | None, float | None]] | None:
    """A reader of (utilisation, watts) through the driver's management library, where there is one."""
    if device.type != "cuda":
        return None
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
    except Exception:  # no library, no driver, no permission: watching is optional
        return None

    def read() -> tuple[float | None, float | None]:
        return (
            _try(lambda: float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100),
            _try(lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000),
        )

    return read


def _try(read: Callable[[], Any]) -> float | None:
    try:
        return float(read())
    except Exception:  # a card that does not report this
        return None
