"""Which rank a process is, as its launcher says by variables of the environment.

torchrun sets them on every node. A job script may set them itself: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
MASTER_ADDR and MASTER_PORT.
"""

import os
from dataclasses import dataclass

import torch

from ...core.base.errors import ConfigError

_ADDRESS = ("MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True, slots=True)
class LaunchedRank:
    """A rank that a launcher started.

    Attributes:
        rank: its number among all ranks, of all nodes.
        ranks: how many there are.
        local_rank: its number among the ranks of its node.
        local_ranks: how many its node has.
        restarts: how often the launcher has restarted the ranks of its node.
    """

    rank: int
    ranks: int
    local_rank: int
    local_ranks: int
    restarts: int

    def device(self, kind: torch.device) -> torch.device:
        """The device of this rank: on a node with several GPUs the one with its local number."""
        if kind.type != "cuda":
            return kind
        visible = torch.cuda.device_count()
        if visible == 1:  # the launcher has given it one of its own, as `srun --gpus-per-task=1` does
            return torch.device("cuda", 0)
        if self.local_rank >= visible:
            raise ConfigError(
                f"this is rank {self.local_rank} of {self.local_ranks} on its node, which shows {visible} GPUs. Start "
                f"as many ranks as there are GPUs (--nproc-per-node {visible}), or give device='cpu'"
            )
        return torch.device("cuda", self.local_rank)


def launched_rank() -> LaunchedRank | None:
    """What torchrun, or a job script, started this process as; None where nothing says so."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return None
    rank, ranks = _number("RANK", 0), _number("WORLD_SIZE", 1)
    local_ranks = _number("LOCAL_WORLD_SIZE", 1)
    launched = LaunchedRank(
        rank, ranks, _number("LOCAL_RANK", 0), local_ranks, _number("TORCHELASTIC_RESTART_COUNT", 0)
    )
    if not 0 <= rank < ranks:
        raise ConfigError(f"RANK is {rank} and WORLD_SIZE is {ranks}; ranks are numbered from 0 to WORLD_SIZE - 1")
    if ranks > 1 and (missing := [name for name in _ADDRESS if not os.environ.get(name)]):
        raise ConfigError(
            f"RANK is {rank} and WORLD_SIZE is {ranks}, but {' and '.join(missing)} {'are' if missing[1:] else 'is'} "
            "not set, so the ranks cannot find each other. Start them with torchrun, or set it to the address of rank 0"
        )
    return launched


def is_first_rank() -> bool:
    """Whether this process writes and prints for all ranks; true where there is only one."""
    launched = launched_rank()
    return launched is None or launched.rank == 0


def srun_tasks() -> int:
    """How many tasks `srun` started of which this process is one, where they are not ranks; else 1."""
    if launched_rank() is not None or "SLURM_STEP_ID" not in os.environ:
        return 1
    return _number("SLURM_STEP_NUM_TASKS", 1)


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    try:
        return int(text) if text else default
    except ValueError:
        raise ConfigError(f"the environment variable {name} is {text!r}; it must be a whole number") from None
