"""Stands in for the numbers of torch's allocator on a GPU."""

from typing import Any

import pytest
import torch


def holds(monkeypatch: pytest.MonkeyPatch, reserved: int, allocated: int = 0, peak: int = 0) -> None:
    """From here on the allocator says that it holds so many bytes, and held so many at most."""
    both: dict[str, Any] = {
        "reserved_bytes": {"all": {"current": reserved, "peak": peak}},
        "allocated_bytes": {"all": {"current": allocated, "peak": peak}},
    }
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda device: both)
