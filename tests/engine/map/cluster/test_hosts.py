"""What `cluster=` and `device=` may say, and how an actor's end is put into words; no cluster is started."""

import threading
from typing import Any

import numpy as np
import pytest
import torch

from brimful import ConfigError, InputError, WorkerError
from brimful.engine.distributed.packed import pack
from brimful.engine.distributed.ray_cluster import RayCluster, check_address
from brimful.engine.distributed.ray_workers import RayWorkers, how
from brimful.engine.map.hosts.cluster import cluster_devices

from ..mapping import rows, run, stamped

ray = pytest.importorskip("ray")


@pytest.mark.parametrize("cluster", ["ray", "ray://head:10001", "10.0.0.1:6379", "node-1.org:6379", "[::1]:6379"])
def test_addresses(cluster: str):
    assert check_address(cluster) == cluster


@pytest.mark.parametrize("cluster", ["", "dask", "ray://head", "head", "tcp://head:1", 6379])
def test_what_is_no_address(cluster: Any):
    with pytest.raises(ConfigError, match="give 'ray', 'ray://host:port' or 'host:port'"):
        run(stamped, rows(3), cluster=cluster)


def test_devices_of_every_node():
    assert cluster_devices("auto") == ("auto", 1)
    assert cluster_devices(None) == ("auto", 1)
    assert cluster_devices("cuda:all") == ("cuda", 1)
    assert cluster_devices("cpu, cpu,cpu") == ("cpu", 3)
    assert cluster_devices([torch.device("cpu"), "cpu"]) == ("cpu", 2)


@pytest.mark.parametrize("device", ["cuda:1", "cuda,cuda", "cpu,cuda", "tpu", []])
def test_devices_that_mean_nothing_on_a_cluster(device: Any):
    with pytest.raises(ConfigError, match=r"on a cluster; give auto, cpu or cuda"):
        run(stamped, rows(3), cluster="ray", device=device)


def test_an_address_where_nobody_listens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(WorkerError, match=r"no Ray cluster answers at 127\.0\.0\.1:1 .*ray start --head"):
        RayCluster("127.0.0.1:1").__enter__()


def test_how_an_actor_ended():
    exceptions = ray.exceptions
    assert "the memory of its host ran out" in how(exceptions.OutOfMemoryError("killed"))
    assert how(exceptions.ActorUnavailableError("gone", None)) == "its node was lost"
    died = "The actor died.\n Worker exit detail: Worker exits with an exit code 9. The rest."
    assert how(exceptions.RaySystemError(died)) == "Worker exits with an exit code 9"


def test_a_value_is_packed_with_its_arrays_beside_it():
    value = {"x": torch.arange(100_000.0), "half": torch.ones(70_000, dtype=torch.bfloat16), "few": np.arange(3)}
    packed = pack(value, shared=True)
    assert len(packed.content) < 10_000
    assert sum(buffer.nbytes for buffer in packed.buffers) >= 540_000
    opened = packed.unpack()
    assert torch.equal(opened["x"], value["x"])
    assert torch.equal(opened["half"], value["half"])
    assert np.array_equal(opened["few"], value["few"])
    assert opened["x"].data_ptr() == packed.buffers[0].ctypes.data
    alone = pack(value).unpack()
    alone["x"].zero_()
    assert torch.equal(value["x"], torch.arange(100_000.0))


def test_what_cannot_be_sent():
    with pytest.raises(InputError, match=r"must be sent to other machines.*make those in setup="):
        RayWorkers().share(threading.Lock())


def test_a_node_that_has_just_left_is_not_asked(monkeypatch: pytest.MonkeyPatch):
    """Ray still counts it among those alive."""
    from brimful.engine.distributed import ray_cluster

    exceptions = ray.exceptions

    class Asked:
        def options(self, **_: Any) -> "Asked":
            return self

        def remote(self, *_: Any) -> str:
            return next(names)

    def get(name: str) -> dict[str, str]:
        if name in answers:
            return answers[name]
        raise exceptions.TaskUnschedulableError("the node does not exist any more")

    monkeypatch.setattr(ray, "remote", lambda **_: lambda function: Asked())
    monkeypatch.setattr(ray, "wait", lambda names, **_: (names, []))
    monkeypatch.setattr(ray, "get", get)
    names, answers = iter(["first", "second"]), {"second": {"host": "second"}}
    assert ray_cluster._ask(["00" * 28, "01" * 28], [], None, "") == {"01" * 28: {"host": "second"}}
    names, answers = iter(["first", "second"]), {}
    with pytest.raises(WorkerError, match=r"no node of the cluster could be asked: .*does not exist any more"):
        ray_cluster._ask(["00" * 28, "01" * 28], [], None, "")
