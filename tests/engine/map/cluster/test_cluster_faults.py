"""Long rounds on a cluster: nodes and drivers that are killed, frozen or new, and what must be left behind: nothing."""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from brimful import WorkerError
from brimful.core.runs.events import BatchDone, Event, NodesDone
from brimful.engine.distributed import ray_workers
from brimful.engine.map.hosts import cluster as cluster_hosts

from ....helpers.paths import ROOT
from ..mapping import EventLog, rows, run, same, shards_of, stamped
from .conftest import STORE

pytestmark = pytest.mark.soak


def slow(x: torch.Tensor) -> torch.Tensor:
    time.sleep(0.05)
    return stamped(x)


def lethal(x: torch.Tensor, *, trap: str) -> torch.Tensor:
    """Ends its process on one item for as long as the trap is there."""
    if (x[:, 0] == 200).any() and Path(trap).exists():
        os._exit(9)
    return stamped(x)


def processes_of(node: Any) -> list[psutil.Process]:
    """The raylet of a node, and all processes that it started."""
    [raylet] = node.all_processes["raylet"]
    found = psutil.Process(raylet.process.pid)
    return [found, *found.children(recursive=True)]


@pytest.fixture
def extra_node(ray_nodes: Any) -> Iterator[Callable[[], Any]]:
    """Adds a node; what is left of it is removed when the test ends."""
    added: list[Any] = []

    def add() -> Any:
        added.append(ray_nodes.add_node(num_cpus=1, object_store_memory=STORE))
        return added[-1]

    yield add
    for node in added:
        ray_nodes.remove_node(node, allow_graceful=False)


def once(count: int, act: Callable[[], None]) -> tuple[EventLog, Callable[[Event], None]]:
    """A log, and a progress function that writes it and acts once, after so many items."""
    log, acted = EventLog(), list[bool]()

    def progress(event: Event) -> None:
        log(event)
        if isinstance(event, BatchDone) and event.done >= count and not acted:
            acted.append(True)
            act()

    return log, progress


def nothing_is_left(out: Path) -> bool:
    """Whether a run directory has no temporary files, of which dead workers may have written some."""
    return not [path for path in out.iterdir() if path.name.endswith(".part") or path.name.startswith(".cluster")]


def test_a_node_that_is_killed(
    cluster: str, extra_node: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The workers write their results themselves."""
    monkeypatch.setattr(cluster_hosts, "WRITERS", 1)
    node = extra_node()

    def kill() -> None:
        for process in processes_of(node):
            process.kill()

    log, progress = once(100, kill)
    result = run(slow, rows(2000), batch_size=10, cluster=cluster, out=tmp_path / "run", progress=progress)
    assert same(result.values, run(stamped, rows(2000), batch_size=10, device="cpu").values)
    assert any("died" in warning for warning in log.warnings)
    assert sum(event.items for event in log.of(BatchDone)) == 2000
    assert nothing_is_left(tmp_path / "run")


def test_a_node_that_freezes_and_thaws(
    cluster: str, extra_node: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its ranges go to others after the deadline, and what it sends once it is thawed counts for nothing."""
    monkeypatch.setattr(cluster_hosts, "WRITERS", 1)
    monkeypatch.setattr(ray_workers, "DEADLINE", 4.0)
    monkeypatch.setattr(ray_workers, "HEARTBEAT", 0.5)
    node, frozen = extra_node(), list[psutil.Process]()

    def freeze() -> None:
        frozen.extend(processes_of(node))
        for process in frozen:
            with contextlib.suppress(psutil.NoSuchProcess):  # some of a node's helpers live for a moment
                process.suspend()

    log, progress = once(100, freeze)

    def thaw_later(event: Event) -> None:
        progress(event)
        if any("no sign of life" in warning for warning in log.warnings):
            for process in frozen:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()

    result = run(slow, rows(6000), batch_size=10, cluster=cluster, out=tmp_path / "run", progress=thaw_later)
    assert any("no sign of life for 4 seconds" in warning for warning in log.warnings)
    assert sum(event.items for event in log.of(BatchDone)) == 6000
    time.sleep(2.0)  # the thawed worker may write what it had
    again = run(slow, rows(6000), batch_size=10, cluster=cluster, out=tmp_path / "run")
    assert again.done == 0 and same(again.values, result.values)
    assert nothing_is_left(tmp_path / "run")
    assert same(result.values, run(stamped, rows(6000), batch_size=10, device="cpu").values)


def test_a_node_that_joins_late_and_leaves_again(cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It is started by Ray's own command, as an administrator would, and its processes are ended once it has worked."""
    monkeypatch.setattr(cluster_hosts, "_LOOK_FOR_NODES", 0.5)
    log, started, left = EventLog(), list[subprocess.Popen[bytes]](), list[bool]()
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", f"--address={cluster}", "--block"]
    command += ["--num-cpus=1", "--node-ip-address=127.0.0.1", f"--object-store-memory={STORE}"]

    def leave() -> None:
        for process in psutil.Process(started[0].pid).children(recursive=True):
            process.kill()
        left.append(True)

    def progress(event: Event) -> None:
        log(event)
        if isinstance(event, BatchDone) and not started:
            started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        worked = [event for event in log.of(NodesDone) if len(event.nodes) == 4]
        if worked and not left:
            leave()

    try:
        result = run(slow, rows(16_000), batch_size=10, cluster=cluster, progress=progress)
    finally:
        if not left:
            leave()
        started[0].wait()
    joined = [warning for warning in log.warnings if "joined the cluster; a worker is started on it" in warning]
    assert len(joined) == 1
    host = joined[0].split(" joined")[0]
    assert log.of(NodesDone)[-1].nodes[host] > 0
    assert any(f"on {host} died" in warning for warning in log.warnings)
    assert sum(event.items for event in log.of(BatchDone)) == 16_000
    assert same(result.values, run(stamped, rows(16_000), batch_size=10, device="cpu").values)


def test_a_batch_that_kills_its_worker_twice_ends_the_run(cluster: str, tmp_path: Path):
    trap = tmp_path / "trap"
    trap.touch()
    function = functools.partial(lethal, trap=str(trap))
    with pytest.raises(WorkerError, match=r"two workers died on the batch at positions 200 to 208.*is kept"):
        run(function, rows(400, 1) * 3, batch_size=8, cluster=cluster, out=tmp_path / "run")
    trap.unlink()
    result = run(function, rows(400, 1) * 3, batch_size=8, cluster=cluster, out=tmp_path / "run")
    assert same(result.values, run(stamped, rows(400, 1) * 3, batch_size=8, device="cpu").values)


def test_the_memory_of_a_host_runs_out(cluster: str, monkeypatch: pytest.MonkeyPatch):
    """Ray ends the worker and says so: its batches go back whole, unlike those that a device has no memory for."""
    from ray.exceptions import OutOfMemoryError

    take, ended = ray_workers.RayWorkers._take, list[int]()

    def take_or_end(workers: Any, worker: int, call: int, returned: Any) -> None:
        if not ended and workers._actors[worker].seen is not None:
            ended.append(worker)
            returned = Future[list[bytes]]()
            returned.set_exception(OutOfMemoryError("Task was killed due to the node running low on memory."))
        take(workers, worker, call, returned)

    monkeypatch.setattr(ray_workers.RayWorkers, "_take", take_or_end)
    log = EventLog()
    result = run(slow, rows(1000), batch_size=10, cluster=cluster, progress=log)
    assert same(result.values, run(stamped, rows(1000), batch_size=10, device="cpu").values)
    assert ended and any("the memory of its host ran out" in warning for warning in log.warnings)
    assert not any("out of memory on" in warning for warning in log.warnings)


DRIVER = """
import os, sys, torch, brimful
sys.path.insert(0, {root!r})
from tests.engine.map.cluster.test_cluster_faults import slow
from tests.engine.map.mapping import rows
brimful.map(slow, rows(2000), batch_size=10, cluster={cluster!r}, out={out!r}, progress=False)
"""


def test_a_driver_that_is_killed(cluster: str, tmp_path: Path):
    """Its actors end with it, and the same call goes on, here or there."""
    import ray

    out = tmp_path / "run"
    script = textwrap.dedent(DRIVER).format(root=str(ROOT), cluster=cluster, out=str(out))
    driver = subprocess.Popen([sys.executable, "-c", script])
    while len(shards_of(out) if out.exists() else []) < 5:
        assert driver.poll() is None
        time.sleep(0.1)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    log = EventLog()
    while ray.available_resources().get("CPU", 0) < 3:  # its actors have ended
        time.sleep(0.2)
    result = run(slow, rows(2000), batch_size=10, cluster=cluster, out=out, progress=log)
    assert 0 < result.done < 2000
    assert same(result.values, run(stamped, rows(2000), batch_size=10, device="cpu").values)


ALONE = """
import glob, os, psutil, sys, torch, brimful
sys.path.insert(0, {root!r})
from tests.engine.map.mapping import rows, same
from brimful.engine.map import map
if __name__ == "__main__":
    before = set(glob.glob("/tmp/brimful-ray-*"))
    offset = 1.0
    options = {{"batch_size": 10, "cluster": "ray", "device": "cpu,cpu", "progress": False}}
    result = brimful.map(lambda x: x + offset, rows(200), **options)
    assert torch.equal(result.values, rows(200) + 1)
    import ray
    assert not ray.is_initialized()
    assert result.plan.devices[0].startswith("1 node, 2 CPU workers"), result.plan
    assert set(glob.glob("/tmp/brimful-ray-*")) <= before
    left = [child.name() for child in psutil.Process().children(recursive=True)]
    assert not left, left
    print("done")
"""


def test_a_cluster_of_its_own_beside_a_foreign_one_and_nothing_is_left_behind(ray_nodes: Any):
    """`cluster="ray"` without RAY_ADDRESS joins nobody: the plan has one node, though three run on this machine."""
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    script = textwrap.dedent(ALONE).format(root=str(ROOT))
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=200)
    assert ended.stdout.strip().endswith("done"), ended.stderr[-2000:]


def test_a_full_disk(cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The driver writes the shards: it ends as a local run does, and goes on once there is room."""
    from brimful import StorageError
    from brimful.engine.map.store import shards

    write, written = shards.write_atomic, list[int]()

    def full(*arguments: Any, **options: Any) -> Any:
        written.append(1)
        if len(written) > 5:
            raise StorageError("the disk is full")
        return write(*arguments, **options)

    monkeypatch.setattr(shards, "write_atomic", full)
    with pytest.raises(StorageError, match="the disk is full"):
        run(slow, rows(1000), batch_size=10, cluster=cluster, out=tmp_path / "run")
    monkeypatch.setattr(shards, "write_atomic", write)
    result = run(slow, rows(1000), batch_size=10, cluster=cluster, out=tmp_path / "run")
    assert result.done == 950
    assert same(result.values, run(stamped, rows(1000), batch_size=10, device="cpu").values)
