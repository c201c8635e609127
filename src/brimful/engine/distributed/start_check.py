"""What ranks check before their first step: that they are alike, that they have the same data, and that they see the
same run directory. What is wrong is the same error on every rank."""

import socket
import time
import uuid
from pathlib import Path
from typing import Any

import torch

from ...core.base import version
from ...core.base.errors import ConfigError, InputError, StorageError
from ...core.runs.files import TEMPORARY
from .environment import launched_rank
from .rank_store import RankStore

_VISIBLE = 10.0  # seconds for a file to be seen on another machine


def describe_rank(device: torch.device) -> dict[str, Any]:
    """What the ranks compare of each other."""
    launched = launched_rank()
    return {
        "host": socket.gethostname(),
        "brimful": version.__version__,
        "torch": torch.__version__,
        "device": device.type,
        "gpu": str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else None,
        "restarts": launched.restarts if launched is not None else 0,
    }


def check_alike(store: RankStore, own: dict[str, Any]) -> tuple[int, int]:
    """Compares versions and devices of all ranks. How many of them are on this machine, and how often any was
    restarted.

    Args:
        own: this rank's `describe_rank`.

    Raises:
        ConfigError: they differ, or two have one GPU.
    """
    ranks = store.gather("ranks", own)
    for name in ("brimful", "torch", "device"):
        for rank, other in enumerate(ranks):
            if other[name] != ranks[0][name]:
                raise ConfigError(
                    f"{name} is {other[name]} on rank {rank} ({other['host']}) and {ranks[0][name]} on rank 0 "
                    f"({ranks[0]['host']}). Ranks that train together need the same: see what each node has"
                )
    for rank, other in enumerate(ranks):
        same = [first for first in range(rank) if other["gpu"] and _gpu(ranks[first]) == _gpu(other)]
        if same:
            gpus = len({_gpu(one) for one in ranks if one["host"] == other["host"]})
            raise ConfigError(
                f"ranks {same[0]} and {rank} on {other['host']} have the same GPU. Start one rank per GPU: "
                f"--nproc-per-node {gpus}"
            )
    return sum(other["host"] == own["host"] for other in ranks), max(other["restarts"] for other in ranks)


def _gpu(rank: dict[str, str]) -> tuple[str, str]:
    return rank["host"], rank["gpu"]


def check_data(store: RankStore, fingerprint: str) -> None:
    """Compares the data of all ranks by its fingerprint.

    Raises:
        InputError: that of one differs from the first one's.
    """
    ranks = store.gather("data", [socket.gethostname(), fingerprint])
    for rank, (host, other) in enumerate(ranks):
        if other != ranks[0][1]:
            raise InputError(
                f"the data on rank {rank} ({host}) is not that of rank 0 ({ranks[0][0]}). Each rank is given all of "
                "the data, and takes its part of every batch: read the same files on every node"
            )


def check_shared(store: RankStore, folder: Path) -> None:
    """Checks that the directory that the first rank has opened is the same on all ranks: after a restart another node
    may have the first rank.

    Raises:
        StorageError: a rank does not see what the first one wrote there.
    """
    mark = f"shared.{uuid.uuid4().hex[:8]}{TEMPORARY}"
    own = folder / mark
    try:
        if store.rank == 0:
            own.touch()
        host, path, mark = store.broadcast("shared", [socket.gethostname(), str(folder.absolute()), mark])
        seen = store.gather("seen", [socket.gethostname(), str(folder.absolute()), _appears(folder / mark)])
    finally:
        if store.rank == 0:
            own.unlink(missing_ok=True)
    for rank, (other, there, sees) in enumerate(seen):
        if not sees:
            raise StorageError(
                f"out is {path} on rank 0 ({host}), and {there} on rank {rank} ({other}) is not the same directory. "
                "Give one on a file system that all nodes share, by its full path: a restarted run may have its first "
                "rank on another node, which reads the checkpoints there"
            )


def _appears(path: Path) -> bool:
    until = time.monotonic() + _VISIBLE
    while not (there := path.exists()) and time.monotonic() < until:
        time.sleep(0.1)
    return there
