"""Which rank a process is, by what its launcher says."""

import pytest
import torch

from brimful import ConfigError
from brimful.engine.distributed.environment import is_first_rank, launched_rank, srun_tasks

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SLURM = ("SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "TORCHELASTIC_RESTART_COUNT")
TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
ADDRESS = {"MASTER_ADDR": "node0", "MASTER_PORT": "29500"}


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch):
    for name in (*NAMES, *SLURM):
        monkeypatch.delenv(name, raising=False)

    def give(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return give


def test_without_a_launcher_a_process_is_alone(given):
    assert launched_rank() is None and is_first_rank() and srun_tasks() == 1


def test_the_second_rank_of_the_second_node_has_its_nodes_second_gpu(given, monkeypatch: pytest.MonkeyPatch):
    given(**TORCHRUN, **ADDRESS, TORCHELASTIC_RESTART_COUNT="2")
    launched = launched_rank()
    assert launched is not None and not is_first_rank()
    assert (launched.rank, launched.ranks, launched.local_rank, launched.restarts) == (5, 8, 1, 2)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert launched.device(torch.device("cuda")) == torch.device("cuda", 1)
    assert launched.device(torch.device("cpu")) == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)  # as srun --gpus-per-task=1 has it
    assert launched.device(torch.device("cuda")) == torch.device("cuda", 0)


def test_more_ranks_than_gpus_are_refused(given, monkeypatch: pytest.MonkeyPatch):
    given(**TORCHRUN | {"LOCAL_RANK": "3"}, **ADDRESS)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    launched = launched_rank()
    assert launched is not None
    with pytest.raises(ConfigError, match=r"rank 3 of 4 on its node, which shows 2 GPUs.*--nproc-per-node 2"):
        launched.device(torch.device("cuda"))


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (TORCHRUN, "MASTER_ADDR and MASTER_PORT are not set"),
        (TORCHRUN | {"MASTER_ADDR": "node0"}, "MASTER_PORT is not set"),
        (TORCHRUN | ADDRESS | {"RANK": "8"}, "RANK is 8 and WORLD_SIZE is 8"),
        (TORCHRUN | ADDRESS | {"WORLD_SIZE": "four"}, "WORLD_SIZE is 'four'"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(given, variables: dict[str, str], words: str):
    given(**variables)
    with pytest.raises(ConfigError, match=words):
        launched_rank()


def test_tasks_of_srun_are_ranks_only_where_the_job_script_says_so(given):
    given(SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS="8")
    assert srun_tasks() == 8 and launched_rank() is None
    given(**TORCHRUN, **ADDRESS)
    assert srun_tasks() == 1
