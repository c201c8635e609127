"""`brimful doctor`: what this machine has, and what is missing for which extra."""

import importlib.metadata
import platform
from collections.abc import Mapping
from typing import Any

import torch

from ..core.base import version as _version
from ..core.base.background import cores
from ..core.base.directories import cache_directory
from ..core.base.extras import EXTRAS, missing
from ..core.base.formatting import format_bytes, format_table
from ..core.memory import cgroup, devices

_PACKAGES = ("torch", "triton", "numpy", "numba", "pyarrow", "safetensors")


def examine() -> dict[str, Any]:
    """The report. Its keys are stable and documented in docs/cli.md."""
    present = [torch.device("cpu"), *(torch.device("cuda", i) for i in range(torch.cuda.device_count()))]
    limit = cgroup.read()
    return {
        "brimful": _version.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": cores(),
        "versions": {name: _version_of(name) for name in _PACKAGES},
        "cuda": torch.version.cuda,
        "devices": [_device(device) for device in present],
        "container_limit": limit.total if limit else None,
        "cache": str(cache_directory()),
        "extras": {name: {"missing": missing(name)} for name in EXTRAS},
    }


def _device(device: torch.device) -> dict[str, Any]:
    memory = devices.memory(device)
    return {
        "device": str(device),
        "model": devices.model_name(device),
        "total": memory.total,
        "free": memory.free,
        "own": memory.own,
        "bf16": torch.cuda.get_device_capability(device) >= (8, 0) if device.type == "cuda" else None,
    }


def _version_of(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def explain(report: Mapping[str, Any]) -> str:
    limit = report["container_limit"]
    versions = ", ".join(f"{name} {version or 'missing'}" for name, version in report["versions"].items())
    head = format_table(
        [
            ("brimful", report["brimful"]),
            ("python", f"{report['python']} on {report['platform']}, {report['cores']} cores"),
            ("packages", versions),
            ("cuda", report["cuda"] or "not in this build of torch"),
            ("container limit", format_bytes(limit) if limit else "none"),
            ("cache", report["cache"]),
        ]
    )
    table = format_table(
        [
            (device["device"], device["model"], format_bytes(device["total"]), format_bytes(device["free"]))
            for device in report["devices"]
        ],
        header=("device", "model", "total", "free"),
    )
    extras = format_table(
        [
            (
                name,
                f"missing {', '.join(lack)}: pip install 'brimful[{name}]'" if (lack := extra["missing"]) else "ok",
            )
            for name, extra in report["extras"].items()
        ],
        header=("extra", "state"),
    )
    return f"{head}\n\n{table}\n\n{extras}"
