"""Training on several nodes under torchrun; several torchrun on this machine stand in for them."""

import os
import signal
from pathlib import Path

import pytest
import torch

from brimful.core.runs.rundir import inspect

from ...helpers.nodes import Nodes
from ...helpers.stopping import wait_for
from . import node_script
from .training import weights

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.soak]
SCRIPT = ("-m", "tests.engine.train.node_script")


def check_weights(out: Path) -> None:
    """The run there has finished, with the weights of a run on one rank."""
    assert inspect(out).state == "finished"
    torch.testing.assert_close(weights(node_script.run(str(out)).model), weights(node_script.run(None).model))


def test_two_nodes_train_as_one_process_would(tmp_path: Path):
    out = tmp_path / "run"
    with Nodes(tmp_path, *SCRIPT, str(out), ranks=2) as nodes:
        assert nodes.wait() == [0, 0], nodes.said(0) + nodes.said(1)
        printed = nodes.said(0) + nodes.said(1)
    assert printed.count(f"out {out}") == 1 and printed.count("out None") == 3  # one rank has the directory
    check_weights(out)


def test_a_rank_that_is_killed_ends_all_nodes_with_a_sentence_and_another_number_goes_on(tmp_path: Path):
    out, marker = tmp_path / "run", tmp_path / "killed"
    with Nodes(tmp_path, *SCRIPT, str(out), "kill", str(marker)) as nodes:
        assert all(nodes.wait())
        survivor = next(said for node in range(2) if "WorkerError" in (said := nodes.said(node)))
    assert "another rank is gone or no longer answers" in survivor and "go on from the last checkpoint" in survivor
    assert (out / "checkpoints" / "last").exists()
    with Nodes(tmp_path, *SCRIPT, str(out), nodes="1", ranks=3) as nodes:
        assert nodes.wait() == [0], nodes.said(0)
    check_weights(out)


def test_with_restarts_it_goes_on_from_the_last_checkpoint_by_itself(tmp_path: Path):
    out, marker = tmp_path / "run", tmp_path / "killed"
    with Nodes(tmp_path, *SCRIPT, str(out), "kill", str(marker), restarts=2) as nodes:
        assert nodes.wait() == [0, 0], nodes.said(0) + nodes.said(1)
    assert marker.exists()
    check_weights(out)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_one_node_saves_and_ends_all(tmp_path: Path, number: signal.Signals):
    out = tmp_path / "run"
    with Nodes(tmp_path, *SCRIPT, str(out), "slow") as nodes:
        wait_for(lambda: (out / "checkpoints" / "last").exists(), 100)
        nodes.processes[1].send_signal(number)
        assert all(nodes.wait())
        assert "KeyboardInterrupt: interrupted after" in nodes.said(0) + nodes.said(1)
    assert inspect(out).state == "interrupted"
    check_weights_after_resume(out)


def check_weights_after_resume(out: Path) -> None:
    resumed = node_script.run(str(out))
    torch.testing.assert_close(weights(resumed.model), weights(node_script.run(None).model))


def test_a_node_that_is_lost_leaves_the_others_to_go_on(tmp_path: Path):
    """Elastic: one of two nodes is gone with all its processes, and the other goes on alone."""
    out = tmp_path / "run"
    with Nodes(tmp_path, *SCRIPT, str(out), "slow", nodes="1:2", restarts=2) as nodes:
        wait_for(lambda: (out / "checkpoints" / "last").exists(), 100)
        lost = _without_store(nodes)
        for child in _children(nodes.processes[lost].pid):
            os.kill(child, signal.SIGKILL)
        nodes.processes[lost].kill()
        assert nodes.wait()[1 - lost] == 0, nodes.said(1 - lost)
        assert "rank 0 of 1 finished" in nodes.said(1 - lost)
    check_weights(out)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _without_store(nodes: Nodes) -> int:
    """The node that does not have the store at which they meet: without that one nobody can go on."""
    return next(node for node, process in enumerate(nodes.processes) if not _listens(process.pid, nodes.port))


def _listens(pid: int, port: int) -> bool:
    sockets = {link for fd in Path(f"/proc/{pid}/fd").iterdir() if (link := str(fd.readlink())).startswith("socket:")}
    lines = Path("/proc/net/tcp").read_text().splitlines() + Path("/proc/net/tcp6").read_text().splitlines()
    fields = [line.split() for line in lines[1:] if "local_address" not in line]
    listening = {
        f"socket:[{row[9]}]" for row in fields if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port
    }
    return bool(sockets & listening)
