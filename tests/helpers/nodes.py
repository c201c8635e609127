"""Stand-ins for the nodes of a cluster: several torchrun on this machine, each with ranks of its own."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

from .paths import environment
from .stopping import wait_for

_PATIENCE = 240.0  # seconds until all nodes have ended


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Nodes:
    """Some torchrun that meet at one address. What each prints is in a file.

    Args:
        folder: for those files.
        script: what every rank runs, with its arguments.
        nodes: how many there are, as `--nnodes` has it: "2", or "1:2".
        ranks: of each node.
        restarts: `--max-restarts`.
        folders: the working directory of each node; by default that of the tests.
    """

    def __init__(
        self,
        folder: Path,
        *script: str,
        nodes: str = "2",
        ranks: int = 1,
        restarts: int = 0,
        folders: list[Path] | None = None,
    ) -> None:
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", nodes, "--nproc-per-node", str(ranks)]
        command += ["--max-restarts", str(restarts), "--rdzv-backend", "c10d", "--rdzv-id", "nodes"]
        # One that is left alone waits so long for others to come back.
        command += ["--rdzv-conf", "join_timeout=60,last_call_timeout=1,close_timeout=5"]
        self.port = free_port()
        command += ["--rdzv-endpoint", f"127.0.0.1:{self.port}", *script]
        count = int(nodes.rpartition(":")[2])
        self.outputs = [folder / f"node-{node}.txt" for node in range(count)]
        self.processes: list[subprocess.Popen[bytes]] = []
        for node, output in enumerate(self.outputs):
            where = folders[node] if folders is not None else None
            with output.open("wb") as stream:
                process = subprocess.Popen(
                    command,
                    env=environment(OMP_NUM_THREADS="1"),
                    cwd=where,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self.processes.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its ranks end with it: their pipes break
            process.wait()

    def said(self, node: int) -> str:
        """What a node and its ranks have printed."""
        return self.outputs[node].read_text(errors="replace")

    def wait(self) -> list[int]:
        """Waits for all; their exit codes."""
        wait_for(lambda: all(process.poll() is not None for process in self.processes), _PATIENCE, 0.2)
        return [process.returncode for process in self.processes]
