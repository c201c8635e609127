"""A connection to a Ray cluster, and what its nodes are: names, versions, memory and GPUs.

Which cluster is always said: an address, or "ray", which is the one that this process is connected to already, or that
the environment variable RAY_ADDRESS names, or else one of this machine alone, started for the run and ended with it.
Another cluster that happens to run on the machine is never joined.
"""

import contextlib
import importlib.metadata
import logging
import os
import platform
import re
import shutil
import socket
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.base.errors import ConfigError, InputError, WorkerError
from ...core.base.extras import require
from ...core.base.version import __version__
from ...core.memory.host import Memory
from . import node_report

_ADDRESS = re.compile(r"ray|(ray://)?[\w.\-]+:\d+|(ray://)?\[[0-9a-fA-F:]+\]:\d+")
_CONNECT = 10.0  # seconds to reach an address
_REPORT = 60.0  # seconds for all nodes to say what they are


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a cluster, after it has been asked.

    Attributes:
        id: as Ray knows it.
        host: its name.
        cpus, gpus: how many Ray may use of it.
        memory: of the host.
        processor: the name of its CPU, as `processor_name` gives it.
        gpu: the name of its GPUs, and the memory of the one with the least; None where it has none.
        shared: whether it sees the run directory.
    """

    id: str
    host: str
    cpus: int
    gpus: int
    memory: Memory
    processor: str
    gpu: tuple[str, Memory] | None
    shared: bool


def check_address(cluster: str) -> str:
    """The text of `cluster=`, checked before anything is started."""
    if not isinstance(cluster, str) or not _ADDRESS.fullmatch(cluster):
        raise ConfigError(f"cluster is {cluster!r}; give 'ray', 'ray://host:port' or 'host:port'")
    return cluster


class RayCluster:
    """A cluster that this process is connected to, for as long as it is open.

    Args:
        cluster: "ray", "ray://host:port" or "host:port".
    """

    def __init__(self, cluster: str) -> None:
        self._cluster, self._undo = check_address(cluster), contextlib.ExitStack()
        self._known: set[str] = set()

    def __enter__(self) -> "RayCluster":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray = require("ray", "ray")
        address = os.environ.get("RAY_ADDRESS", "") if self._cluster == "ray" else self._cluster
        if ray.is_initialized():
            connected = ray.get_runtime_context().gcs_address
            if self._cluster not in ("ray", connected) and not self._cluster.startswith("ray://"):
                raise ConfigError(
                    f"cluster is {self._cluster!r}, and this process is connected to {connected}: give that address, "
                    "or call ray.shutdown() before"
                )
            return self
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
        if not address or address == "local":
            options |= {"address": "local", "include_dashboard": False}
            options["_temp_dir"] = self._undo.enter_context(_short_folder())
        else:
            _reach(address)
            options |= {"address": address}
        try:
            ray.init(namespace=f"brimful-{uuid.uuid4()}", **options)
        except Exception as error:
            self._undo.close()
            text = " ".join(str(error).split())
            raise WorkerError(f"the Ray cluster {address or 'of this machine'} cannot be used: {text[:300]}") from error
        self._undo.callback(ray.shutdown)
        return self

    def __exit__(self, *error: object) -> None:
        self._undo.close()

    def new_nodes(self, files: list[str] | None = None, folder: Path | None = None) -> list[Node]:
        """The nodes that are alive and were not given before, asked what they are.

        Args:
            files: must be readable on each.
            folder: the run directory, which they may share.

        Raises:
            WorkerError: a node has other versions, or does not answer.
            InputError: a node does not see a file.
        """
        ray = require("ray", "ray")
        alive = {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}
        new = {node: resources for node, resources in alive.items() if node not in self._known}
        if not new:
            return []
        self._known |= set(new)
        with _token(folder) as token:
            said = _ask(list(new), files or [], folder, token)
            written = set() if folder is None else {path.name for path in folder.glob(f"{token}-*")}
        for report in said.values():
            _check(report)
        return [_node(id, new[id], report, report["written"] in written) for id, report in said.items()]


def _node(id: str, resources: dict[str, float], said: dict[str, Any], shared: bool) -> Node:
    """A node, by what Ray may use of it, and what it says itself."""
    host = Memory(total=said["memory"][0], free=said["memory"][1], own=0)
    gpus, gpu = int(resources.get("GPU", 0)), None
    if gpus:
        kinds = [key.split(":", 1)[1] for key in resources if key.startswith("accelerator_type:")]
        unknown = (kinds[0] if kinds else "GPU", host.total, host.free)
        name, total, free = min(said["gpus"], key=lambda card: card[1], default=unknown)
        gpu = str(name), Memory(total=int(total), free=int(free), own=0)
    return Node(id, said["host"], int(resources.get("CPU", 0)), gpus, host, said["processor"], gpu, shared)


@contextlib.contextmanager
def _short_folder() -> Iterator[str]:
    """For Ray's sockets, whose paths may not be long."""
    folder = tempfile.mkdtemp(prefix="brimful-ray-", dir="/tmp")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _reach(address: str) -> None:
    """Raises at once where nobody listens: Ray itself would try for a minute."""
    host, port = address.removeprefix("ray://").rsplit(":", 1)
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT).close()
    except OSError as error:
        raise WorkerError(
            f"no Ray cluster answers at {address} ({error}). Start one with `ray start --head`, or give its address: "
            "host:6379 on one of its machines, ray://host:10001 from elsewhere."
        ) from error


@contextlib.contextmanager
def _token(folder: Path | None) -> Iterator[str]:
    """The name of a file in the folder by which it is known."""
    token = f".cluster-{uuid.uuid4().hex}"
    if folder is None:
        yield token
        return
    (folder / token).write_text("")
    try:
        yield token
    finally:
        for path in folder.glob(f"{token}*"):
            path.unlink(missing_ok=True)


def _ask(ids: list[str], files: list[str], folder: Path | None, token: str) -> dict[str, dict[str, Any]]:
    """What each node says of itself; one that has just left the cluster says nothing."""
    ray = require("ray", "ray")
    affinity = require("ray", "ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    ray.cloudpickle.register_pickle_by_value(node_report)
    try:
        ask = ray.remote(num_cpus=0, max_retries=1)(node_report.report)
        place = None if folder is None else str(folder.resolve())
        asked = {
            id: ask.options(scheduling_strategy=affinity(id, soft=False)).remote(files, place, token) for id in ids
        }
    finally:
        ray.cloudpickle.unregister_pickle_by_value(node_report)
    _, silent = ray.wait(list(asked.values()), num_returns=len(ids), timeout=_REPORT)
    if silent:
        raise WorkerError(
            f"{len(silent)} of the cluster's {len(ids)} nodes did not answer within {_REPORT:g} seconds. `ray status` "
            "shows which are alive."
        )
    said: dict[str, dict[str, Any]] = {}
    gone: Exception | None = None
    for id, reference in asked.items():
        try:
            said[id] = ray.get(reference)
        except _left() as error:
            gone = error
        except Exception as error:
            raise WorkerError(f"a node of the cluster could not be asked: {_line(error)}") from error
    if gone is not None and not said:
        raise WorkerError(f"no node of the cluster could be asked: {_line(gone)}") from gone
    return said


def _left() -> tuple[type[Exception], ...]:
    """How Ray says that a node has left: it takes it some seconds to note that itself."""
    exceptions = require("ray", "ray.exceptions")
    return exceptions.TaskUnschedulableError, exceptions.NodeDiedError, exceptions.LocalRayletDiedError


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def versions() -> dict[str, str | None]:
    """Those of this process that must be the same on every node."""
    return {
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
        "brimful": __version__,
    }


def _check(said: dict[str, Any]) -> None:
    host = said["host"]
    for package, mine in versions().items():
        theirs = said["versions"][package]
        if package == "python" and theirs:
            mine, theirs = (".".join(text.split(".")[:2]) for text in (str(mine), theirs))
        if theirs is None:
            raise WorkerError(f"the node {host} has no {package}: install {package} {mine} on it, as it is here")
        if theirs != mine:
            raise WorkerError(
                f"the node {host} has {package} {theirs}, and this process has {mine}: install the same on all nodes"
            )
    if said["missing"]:
        raise InputError(
            f"the node {host} cannot read {said['missing'][0]}: put it where all nodes see it under the same path, "
            "such as a shared file system, or give the items as arrays"
        )
