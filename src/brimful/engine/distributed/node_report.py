"""What a node of a cluster says of itself before any work is sent to it.

The function is sent by value, and needs nothing but the standard library: brimful may be missing there, or be another
version.
"""

from typing import Any


def report(files: list[str], folder: str | None, token: str) -> dict[str, Any]:
    """The node's versions, memory and GPUs, and which of the paths it sees.

    Args:
        files: must be readable.
        folder: may be shared with the driver, which has put a file with the token's name there; None: there is none.
    """
    import contextlib
    import importlib.metadata
    import importlib.util
    import os
    import platform
    import re
    from pathlib import Path

    def version(package: str) -> str | None:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return None

    def brimful() -> str | None:
        spec = importlib.util.find_spec("brimful")
        if spec is None or spec.origin is None:
            return None
        text = (Path(spec.origin).parent / "core" / "base" / "version.py").read_text()
        found = re.search(r'__version__ = "(.+)"', text)
        return found[1] if found else "unknown"

    def memory() -> tuple[int, int]:
        """Total and free bytes of the host, or of the container where that is less."""
        total = free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with contextlib.suppress(OSError, ValueError, TypeError):  # not Linux, or no limit
            found: Any = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
            free = int(found[1]) * 1024
            most = int(Path("/sys/fs/cgroup/memory.max").read_text())
            used = int(Path("/sys/fs/cgroup/memory.current").read_text())
            total, free = min(total, most), min(free, most - used)
        return total, free

    def gpus() -> list[tuple[str, int, int]]:
        """Name, total and free bytes of each."""
        try:
            import pynvml

            pynvml.nvmlInit()
            handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            infos = [(pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetMemoryInfo(handle)) for handle in handles]
            return [(str(name), int(info.total), int(info.free)) for name, info in infos]
        except Exception:  # no library, no driver, no card
            return []

    written = None
    if folder is not None and Path(folder, token).exists():
        with contextlib.suppress(OSError):
            written = f"{token}-{platform.node()}-{os.getpid()}"
            Path(folder, written).write_text("")
    return {
        "host": platform.node(),
        "versions": {"python": platform.python_version(), "torch": version("torch"), "brimful": brimful()},
        "missing": [path for path in files if not os.access(path, os.R_OK)],
        "written": written,
        "memory": memory(),
        "processor": f"CPU {os.uname().machine}",
        "gpus": gpus(),
    }
