"""The job scripts for a cluster: their syntax, and what is in them with stand-ins for Slurm's commands."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from brimful.core.runs.rundir import inspect

from .helpers.nodes import free_port
from .helpers.paths import ROOT, environment
from .helpers.stopping import wait_for

FOLDER = ROOT / "examples" / "cluster"
STAND_INS = ROOT / "tests" / "helpers" / "slurm"
SCRIPTS = sorted(FOLDER.glob("*.sbatch"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_syntax_of_job_scripts(script: Path):
    checked = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert script.read_text().startswith("#!/bin/bash\n") and "#SBATCH --nodes" in script.read_text()


def slurm(folder: Path, nodes: int, tasks: int) -> dict[str, str]:
    """The environment of a job of two nodes, of which each is this machine."""
    commands = folder / "bin"
    commands.mkdir()
    for name, module in (("torchrun", "torch.distributed.run"), ("python", None)):
        start = f'exec {sys.executable} {f"-m {module} " if module else ""}"$@"'
        (commands / name).write_text(f"#!/bin/sh\n{start}\n")
        (commands / name).chmod(0o755)
    job = free_port() % 20_000  # the script makes a port of it
    return environment(
        PATH=os.pathsep.join([str(commands), str(STAND_INS), os.environ["PATH"]]),
        SLURM_JOB_ID=str(job),
        SLURM_JOB_NODELIST="node[0-1]",
        SLURM_NNODES=str(nodes),
        SLURM_NTASKS=str(tasks),
        RANKS_PER_NODE="1",
        OMP_NUM_THREADS="1",
        STAND_IN_REQUEUED=str(folder / "requeued"),
    )


@pytest.mark.soak
@pytest.mark.parametrize("script", ["train.sbatch", "train_srun.sbatch"])
def test_a_job_script_trains_on_two_nodes(script: str, tmp_path: Path):
    command = ["bash", str(FOLDER / script), str(FOLDER / "train.py"), str(tmp_path / "run")]
    env = slurm(tmp_path, nodes=2, tasks=2)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"steps, in {tmp_path / 'run'}") == 1
    assert inspect(tmp_path / "run").state == "finished"


@pytest.mark.soak
def test_before_its_time_is_over_a_job_saves_and_requeues_itself(tmp_path: Path):
    slow = tmp_path / "slow.py"
    text = (FOLDER / "train.py").read_text().replace("epochs=20", "epochs=20_000")
    slow.write_text(text)
    out, env = tmp_path / "run", slurm(tmp_path, nodes=2, tasks=2)
    with (tmp_path / "log").open("w") as log:
        command = ["bash", str(FOLDER / "train.sbatch"), str(slow), str(out)]
        job = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        wait_for(lambda: (out / "checkpoints" / "last").exists(), 120)
        job.send_signal(signal.SIGUSR1)
        assert job.wait(120) == 0, (tmp_path / "log").read_text()
    assert inspect(out).state == "interrupted"
    assert (tmp_path / "requeued").read_text().strip() == env["SLURM_JOB_ID"]
