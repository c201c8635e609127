"""The devices of this machine: what jobs may lease on each, and how busy they are. No CUDA context is made for it."""

import contextlib
import functools
import importlib.util
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ...core.memory.budget import Budget
from ...core.memory.host import Memory, host_memory, processor_name
from ..jobs.lease import CPU, Capacity

_NOT_READ = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device as it is now. `uuid` names a GPU to a process."""

    name: str
    model: str
    total: int
    free: int
    uuid: str = ""
    utilisation: float | None = None
    watts: float | None = None


class Inventory:
    """The devices, read anew each time: one may be lost or added.

    Args:
        budget: of each GPU, or of the host's memory where there is none; by default 90% of what was free at first.
        cores: that jobs share; None for all of this process.
    """

    def __init__(self, budget: str | None = None, cores: int | None = None) -> None:
        self._lock = threading.Lock()
        self._first: dict[str, Memory] = {}
        self._budget = Budget.parse(budget)
        self._cores = cores or len(os.sched_getaffinity(0))

    def set_budget(self, budget: str | None) -> None:
        self._budget = Budget.parse(budget)

    def devices(self) -> list[Device]:
        """The CPU first, then GPUs by number."""
        host = host_memory()
        busy = psutil.cpu_percent(None) / 100
        cpu = Device(
            name=CPU,
            model=processor_name(),
            total=host.total,
            free=host.free,
            utilisation=busy,
        )
        return [cpu, *_gpus()]

    def capacity(self, present: list[Device] | None = None) -> Capacity:
        """What jobs may lease altogether."""
        present = self.devices() if present is None else present
        gpus = any(device.name != CPU for device in present)
        bytes = {}
        with self._lock:
            for device in present:
                seen = Memory(total=device.total, free=device.free, own=0)
                first = self._first.setdefault(device.uuid or device.name, seen)
                budget = Budget() if gpus and device.name == CPU else self._budget
                bytes[device.name] = min(budget.on(device.name).limit(first), device.total)
        return Capacity(bytes=bytes, cores=self._cores)

    def environment(self, names: tuple[str, ...]) -> tuple[dict[str, str], str]:
        """For a process with a lease on those devices: variables that show it no others, and what they are called
        there."""
        if names == (CPU,):
            return {"CUDA_VISIBLE_DEVICES": ""}, CPU
        uuids = {device.name: device.uuid for device in self.devices()}
        visible = ",".join(uuids.get(name) or name.removeprefix("cuda:") for name in names)
        return {"CUDA_VISIBLE_DEVICES": visible}, ",".join(f"cuda:{place}" for place in range(len(names)))


def _gpus() -> list[Device]:
    if not _uses_cuda():
        return []
    try:
        import pynvml

        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except Exception:  # no driver, no card
        return []
    found = []
    for handle in _visible(handles):
        with contextlib.suppress(Exception):  # a card that is lost answers nothing
            found.append(_gpu(f"cuda:{len(found)}", handle))
    return found


@functools.cache
def _uses_cuda() -> bool:
    """Whether torch is a CUDA build, by its files: importing it would cost the server its memory."""
    spec = importlib.util.find_spec("torch")
    return spec is not None and any(
        Path(place, "lib", name).exists()
        for place in spec.submodule_search_locations or ()
        for name in ("libtorch_cuda.so", "torch_cuda.dll")
    )


def _visible(handles: list[Any]) -> list[Any]:
    """Those that this process may use, in its order."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return handles
    import pynvml

    uuids = {}
    for index, handle in enumerate(handles):
        with contextlib.suppress(Exception):
            uuids[str(index)] = uuids[_text(pynvml.nvmlDeviceGetUUID(handle))] = handle
    return [uuids[part.strip()] for part in chosen.split(",") if part.strip() in uuids]


def _gpu(name: str, handle: Any) -> Device:
    import pynvml

    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    utilisation, watts = _NOT_READ
    with contextlib.suppress(Exception):
        utilisation = float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100
    with contextlib.suppress(Exception):
        watts = pynvml.nvmlDeviceGetPowerUsage(handle) / 1000
    return Device(
        name=name,
        model=_text(pynvml.nvmlDeviceGetName(handle)),
        total=int(memory.total),
        free=int(memory.free),
        uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
        utilisation=utilisation,
        watts=watts,
    )


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
