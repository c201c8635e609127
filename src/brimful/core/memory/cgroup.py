"""The container's memory limit, which is smaller than the host's: control groups, version 1 and 2.

A process sits in one group of a tree; every group above it may carry a limit of its own, so each is read and
the tightest counts. Page cache that the kernel can drop (`inactive_file`) is not counted as used.
"""

from dataclasses import dataclass
from pathlib import Path

_UNLIMITED = 1 << 60  # version 1 writes a page-rounded 2^63 where there is no limit


@dataclass(frozen=True, slots=True)
class Limit:
    """A memory limit and what is left under it, in bytes."""

    total: int
    free: int


def read(root: Path = Path("/")) -> Limit | None:
    """The tightest limit on this process, or None where there is none (or no control groups at all).

    Args:
        root: the file system's root; tests point it at a made-up one.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text(errors="replace").splitlines()
    except OSError:
        return None
    limits = []
    for line in lines:
        _, controllers, path = line.split(":", 2) if line.count(":") >= 2 else ("", "-", "")
        if controllers == "":
            mount, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        limits += [limit for folder in _ancestors(mount, path) if (limit := _group(folder, *names))]
    if not limits:
        return None
    return Limit(total=min(limit.total for limit in limits), free=min(limit.free for limit in limits))


def _ancestors(mount: Path, path: str) -> list[Path]:
    """The group's folder and all above it. Inside a container the path may name folders that only the host
    sees: those do not exist here and are passed over, and the mount itself is the container's own group."""
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    return [mount.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]


def _group(folder: Path, limit_name: str, used_name: str, cache_name: str) -> Limit | None:
    total = _number(folder / limit_name)
    if total is None or not 0 <= total < _UNLIMITED:
        return None
    used = (_number(folder / used_name) or 0) - _stat(folder / "memory.stat", cache_name)
    return Limit(total=total, free=max(0, total - max(0, used)))


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return None


def _stat(path: Path, name: str) -> int:
    try:
        return int(dict(line.split(" ", 1) for line in path.read_text().splitlines()).get(name, 0))
    except (OSError, ValueError):
        return 0
