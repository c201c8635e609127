"""The process group of the ranks: opened where they meet, closed when they are done."""

import atexit
import contextlib
import datetime
import itertools
import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist

from ...core.base.errors import WorkerError
from . import rank_store
from .collectives import Group
from .environment import launched_rank
from .rendezvous import torchrun_store

TIMEOUT = 60.0
"""Seconds after which a rank that waits for the others gives up."""

_THREADS_END = 0.1  # seconds for gloo's threads to end
_runs = itertools.count()


@contextlib.contextmanager
def process_group(group: Group, rendezvous: str = "env://", timeout: float = TIMEOUT) -> Iterator[Group]:
    """The group, with its process group open where it has more than one rank. A rank that fails inside says why to the
    others."""
    if group.ranks == 1:
        yield group
        return
    if group.device.type == "cuda":
        torch.cuda.set_device(group.device)
    opened_here = not dist.is_initialized()
    if opened_here:
        backend = "nccl" if group.device.type == "cuda" else "gloo"
        _open(backend, rendezvous, group.rank, group.ranks, timeout)
    store = rank_store.RankStore(_default_store(), group.rank, group.ranks, next(_runs))
    try:
        with rank_store.current(store):
            yield group
    except BaseException as error:
        store.report_failure(error)
        raise
    finally:
        if opened_here:
            _close()


def open_launched() -> bool:
    """Opens the process group of the ranks that a launcher started, for as long as this process lives; False where it
    started none. Tensors of a CPU and of a GPU can be exchanged."""
    launched = launched_rank()
    if launched is None or not dist.is_available():
        return False
    if torch.cuda.is_available():
        torch.cuda.set_device(launched.device(torch.device("cuda")))
    _open(None, "env://", launched.rank, launched.ranks, TIMEOUT)
    atexit.register(_close)
    return True


def _open(backend: str | None, rendezvous: str, rank: int, ranks: int, timeout: float) -> None:
    limit = datetime.timedelta(seconds=timeout)
    try:
        if rendezvous == "env://" and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            store = torchrun_store(address, port, rank, ranks, rank_store.START)
            dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=limit)
        else:
            dist.init_process_group(backend, init_method=rendezvous, rank=rank, world_size=ranks, timeout=limit)
    except (RuntimeError, OSError) as error:
        address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        where = address if rendezvous == "env://" else rendezvous
        raise WorkerError(
            f"rank {rank} of {ranks} did not meet the others at {where} ({str(error).splitlines()[0]}). Start the same "
            "command on every node, with the same address, and see that its port is open between them"
        ) from error


def _close() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
        # Gloo's threads let go of the last tensors a little later, and need Python for that: where the process ends at
        # once they find it gone, and torch aborts.
        time.sleep(_THREADS_END)


def _default_store() -> dist.Store:
    return dist.distributed_c10d._get_default_store()
