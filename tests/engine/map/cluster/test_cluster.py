"""`map` on a Ray cluster of three nodes: the bits of a local run, and the faults that a run must survive or name."""

import functools
import importlib
import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from brimful import ConfigError, InputError, WorkerError
from brimful.core.runs.events import BatchDone, Event, Planned
from brimful.data import database
from brimful.engine.distributed import ray_cluster, ray_workers
from brimful.engine.map.hosts import cluster as cluster_hosts

from ..mapping import EventLog, rows, run, same, stamped


def deadly(x: torch.Tensor, *, trap: str) -> torch.Tensor:
    """Ends its process once, on one item; refuses another; and writes to its input."""
    if (x[:, 0] == 200).any() and Path(trap).exists():
        Path(trap).unlink()
        os._exit(9)
    time.sleep(0.01)
    if (x[:, 0] == 50).any():
        raise ValueError("fifty")
    result = stamped(x)
    x.zero_()
    return result


def column(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    time.sleep(0.005)
    return stamped(batch["x"])


def test_a_worker_that_dies_a_bad_item_and_the_bits_of_a_local_run(cluster: str, tmp_path: Path):
    """The items are in memory here, in the object store there, and no function writes to them."""
    log, trap, items = EventLog(), tmp_path / "trap", rows(3000)
    trap.touch()
    function = functools.partial(deadly, trap=str(trap))
    result = run(function, items, batch_size=24, cluster=cluster, budget="300MB", progress=log)
    local = run(function, items, batch_size=24, device="cpu")
    assert not trap.exists()
    assert same(result.values, local.values)
    assert np.array_equal(result.status, local.status)
    assert result.messages == local.messages == {50: "ValueError: fifty"}
    assert sum("died" in warning and "another is started" in warning for warning in log.warnings) == 1
    assert sum(event.items for event in log.of(BatchDone)) == 3000
    assert log.of(Planned)[0].plan["devices"] == ["3 nodes, 3 CPU workers: 300 MB each"]
    assert same(items, rows(3000))


@pytest.mark.soak
@pytest.mark.parametrize("writers", [1, 100])
def test_a_run_goes_from_here_to_the_cluster_and_back(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writers: int
):
    """Each stops after a while; the workers read the file themselves, and write the results or send them."""
    monkeypatch.setattr(cluster_hosts, "WRITERS", writers)
    file, out = tmp_path / "x.parquet", tmp_path / "run"
    pq.write_table(pa.table({"x": rows(600, 1)[:, 0].numpy()}), file, row_group_size=100)
    expected = run(column, str(file), batch_size=10, device="cpu")

    def stop_after(count: int) -> Any:
        def stop(event: Event) -> None:
            if isinstance(event, BatchDone) and event.done >= count:
                raise KeyboardInterrupt

        return stop

    for count, where in ((200, {"device": "cpu"}), (400, {"cluster": cluster})):
        with pytest.raises(KeyboardInterrupt):
            run(column, str(file), batch_size=10, out=out, progress=stop_after(count), **where)
    finished = run(column, str(file), batch_size=10, out=out, device="cpu")
    assert 0 < finished.done <= 200
    assert same(finished.values, expected.values)
    assert not list(out.glob(".cluster-*"))


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["memory map", "database"])
def test_workers_read_their_own_items(cluster: str, tmp_path: Path, kind: str, postgres_home: Path):
    """And nothing is sent through the object store."""
    items = rows(600).numpy()
    if kind == "memory map":
        np.save(tmp_path / "x.npy", items)
        source: Any = np.load(tmp_path / "x.npy", mmap_mode="r")
    else:
        name = f"t{uuid.uuid4().hex[:12]}"
        database.import_dataset({"x": items}, name, home=str(postgres_home))
        source = database.postgres(name, home=str(postgres_home))
    function = column if kind == "database" else stamped
    result = run(function, source, batch_size=24, cluster=cluster)
    assert result.ok.all()
    assert same(result.values, run(stamped, rows(600), batch_size=24, device="cpu").values)


def refuse(device: torch.device) -> None:
    raise OSError("no model here")


def scaled(*given: torch.Tensor) -> torch.Tensor:
    return given[0] * given[1]


@pytest.mark.soak
def test_what_is_made_once_per_worker_fails_on_the_nodes(cluster: str):
    with pytest.raises(OSError, match="no model here"):
        run(scaled, rows(300), batch_size=50, cluster=cluster, setup=refuse)


def test_work_that_cannot_be_placed_is_an_error(cluster: str, monkeypatch: pytest.MonkeyPatch):
    import ray

    holder: Any = ray.remote(num_cpus=1)(type("Holder", (), {"ready": lambda self: True}))
    held = [holder.remote() for _ in range(3)]
    ray.get([actor.ready.remote() for actor in held])
    monkeypatch.setattr(ray_workers, "PLACING", 1.0)
    monkeypatch.setattr(ray_workers, "HEARTBEAT", 0.2)
    try:
        with pytest.raises(WorkerError, match=r"no worker could be placed .* within 1 seconds: other work has"):
            run(stamped, rows(10), cluster=cluster)
    finally:
        for actor in held:
            ray.kill(actor)


@pytest.mark.soak
def test_a_function_of_a_module_that_nodes_lack(cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "only_here.py").write_text("def function(x):\n    return x * 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("only_here")
    with pytest.raises(InputError, match=r"cannot be loaded on the node .*only_here.*register_pickle_by_value"):
        run(module.function, rows(10), cluster=cluster)
    sys.modules.pop("only_here")


def test_other_versions_and_files_that_nodes_do_not_see(cluster: str, monkeypatch: pytest.MonkeyPatch):
    mine = ray_cluster.versions()
    monkeypatch.setattr(ray_cluster, "versions", lambda: {**mine, "torch": "1.0"})
    with pytest.raises(WorkerError, match=r"has torch .*, and this process has 1\.0: install the same on all nodes"):
        run(stamped, rows(10), cluster=cluster)
    monkeypatch.setattr(ray_cluster, "versions", lambda: mine)
    with (
        ray_cluster.RayCluster(cluster) as connected,
        pytest.raises(InputError, match=r"cannot read /nowhere/x\.npy: put it where all nodes see it"),
    ):
        connected.new_nodes(["/nowhere/x.npy"])


def test_another_cluster_than_the_one_that_this_process_is_connected_to(cluster: str):
    with pytest.raises(ConfigError, match="this process is connected to"):
        run(stamped, rows(10), cluster="127.0.0.1:1")
