"""The peak of a block, and the sampler."""

import sys
import threading
import time
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from brimful.core.base.errors import BrimfulWarning
from brimful.core.memory import host, monitor
from brimful.core.memory.devices import resident_bytes
from brimful.core.memory.monitor import Peak, Sampler
from brimful.core.runs.events import Sampled

from ...helpers.memory import pages
from .allocator import holds

CPU = torch.device("cpu")
CUDA = torch.device("cuda", 0)
BLOCK = 120_000_000


def kernel_keeps_a_high_water_mark() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return "VmHWM:" in Path("/proc/self/status").read_text()
    except OSError:
        return False


@pytest.mark.skipif(not kernel_keeps_a_high_water_mark(), reason="this kernel keeps no resettable high-water mark")
def test_a_peak_sees_what_was_freed_before_the_end_and_forgets_it_afterwards():
    with Peak(CPU, baseline=resident_bytes()) as first:
        block = pages(BLOCK)
        del block
    with Peak(CPU, baseline=resident_bytes()) as second:
        pass
    assert BLOCK * 0.9 < first.bytes < BLOCK * 1.5
    assert second.bytes < BLOCK * 0.5


def test_a_peak_without_the_kernels_help_reads_the_level(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(host, "_STATUS", tmp_path / "status")
    monkeypatch.setattr(monitor, "_CLEAR", tmp_path / "no" / "clear_refs")
    with Peak(CPU) as peak:
        pass
    assert peak.bytes > 1_000_000
    parts = "RssAnon: 3 kB\nRssFile: 2 kB\nRssShmem: 1 kB\n"
    (tmp_path / "status").write_text(f"VmHWM: 9 kB\n{parts}")
    assert peak.read() == 7 * 1024
    (tmp_path / "status").write_text(f"VmHWM: 5 kB\n{parts}")  # files were mapped after the peak
    assert peak.read() == 4 * 1024
    (tmp_path / "status").write_text(f"VmHWM: garbage\n{parts}")
    assert peak.read() == 4 * 1024
    (tmp_path / "status").write_text("VmHWM: 9 kB\n")
    assert peak.read() > 1_000_000


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says what is mapped from files")
def test_the_pages_of_mapped_files_do_not_count(tmp_path: Path):
    np.arange(BLOCK // 8, dtype=np.float64).tofile(tmp_path / "data")
    before = resident_bytes()
    with Peak(CPU, baseline=before) as peak:
        mapped = np.memmap(tmp_path / "data", dtype=np.float64)
        assert mapped.sum() > 0
        assert resident_bytes() - before < BLOCK * 0.2
    assert peak.bytes < BLOCK * 0.2


def test_a_peak_is_never_below_nothing():
    with Peak(CPU, baseline=10**15) as peak:
        pass
    assert peak.bytes == 0


def test_a_peak_on_cuda_is_the_allocators_own(monkeypatch: pytest.MonkeyPatch):
    resets: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", resets.append)
    holds(monkeypatch, 7, peak=123)
    with Peak(CUDA) as peak:
        assert resets == [CUDA]
    assert peak.bytes == 123


def wait_for(samples: list[Sampled], count: int) -> None:
    deadline = time.monotonic() + 20
    while len(samples) < count and time.monotonic() < deadline:
        time.sleep(0.005)
    assert len(samples) >= count


def test_the_sampler_sees_memory_grow():
    samples: list[Sampled] = []
    with Sampler(samples.append, CPU, baseline=resident_bytes(), interval=0.01):
        wait_for(samples, 2)
        block = pages(BLOCK)
        wait_for(samples, len(samples) + 3)
        del block
    assert max(sample.used for sample in samples) - samples[0].used > BLOCK * 0.9
    times = [sample.time for sample in samples]
    assert times == sorted(times)
    assert samples[0].utilisation is not None and samples[0].watts is None


@pytest.mark.timeout(300)
def test_the_sampler_does_not_wait_for_its_next_sample():
    with Sampler(print, CPU, interval=1e6):
        pass
    assert "brimful-sampler" not in [thread.name for thread in threading.enumerate()]


def test_a_broken_listener_stops_the_sampling_and_not_the_work():
    samples: list[Sampled] = []

    def broken(sample: Sampled) -> None:
        samples.append(sample)
        raise RuntimeError("no such file")

    with pytest.warns(BrimfulWarning, match="sampling stopped.*no such file"):  # noqa: SIM117
        with Sampler(broken, CPU, interval=0.01):
            wait_for(samples, 1)
            time.sleep(0.05)
    assert len(samples) == 1


class FakeNvml(types.ModuleType):
    """The management library of a driver that is not there."""

    def __init__(self, watts: float | None = 250.0, found: bool = True) -> None:
        super().__init__("pynvml")
        self.asked: list[str] = []
        self._watts, self._found = watts, found

    def nvmlInit(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        self.asked.append(uuid)
        if not self._found:
            raise RuntimeError("NVML_ERROR_NOT_FOUND")
        return "handle"

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> types.SimpleNamespace:  # noqa: N802
        assert handle == "handle"
        return types.SimpleNamespace(gpu=73)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> float:  # noqa: N802
        if self._watts is None:
            raise RuntimeError("NVML_ERROR_NOT_SUPPORTED")
        return self._watts * 1000


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    holds(monkeypatch, 4096)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: types.SimpleNamespace(uuid="12ab-34cd"))


def look(monkeypatch: pytest.MonkeyPatch, nvml: object) -> Sampled:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    return Sampler(print, CUDA).sample()


def test_a_gpu_reports_utilisation_and_power(monkeypatch: pytest.MonkeyPatch, card: None):
    nvml = FakeNvml()
    sample = look(monkeypatch, nvml)
    assert (sample.used, sample.utilisation, sample.watts) == (4096, 0.73, 250.0)
    assert nvml.asked == ["GPU-12ab-34cd"]


def test_a_card_that_does_not_report_power_still_reports_the_rest(monkeypatch: pytest.MonkeyPatch, card: None):
    sample = look(monkeypatch, FakeNvml(watts=None))
    assert (sample.used, sample.utilisation, sample.watts) == (4096, 0.73, None)


@pytest.mark.parametrize("nvml", [None, FakeNvml(found=False)], ids=["no library", "no such card"])
def test_without_the_library_memory_is_still_seen(monkeypatch: pytest.MonkeyPatch, card: None, nvml: object):
    sample = look(monkeypatch, nvml)
    assert (sample.used, sample.utilisation, sample.watts) == (4096, None, None)


@pytest.mark.gpu
def test_a_real_gpu_is_seen():
    device = torch.device("cuda", 0)
    with Peak(device) as peak:
        torch.ones(BLOCK // 4, device=device)
    sample = Sampler(print, device).sample()
    assert peak.bytes >= BLOCK
    assert sample.utilisation is None or 0 <= sample.utilisation <= 1


def test_a_cpu_has_a_utilisation_and_no_power():
    sampler = Sampler(lambda sample: None, CPU)
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    sample = sampler.sample()
    assert sample.utilisation is not None and 0 < sample.utilisation <= 1 and sample.watts is None
