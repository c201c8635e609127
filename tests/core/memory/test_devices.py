"""Names of devices, and their memory."""

import pytest
import torch

from brimful.core.base.background import cores
from brimful.core.base.errors import DeviceError
from brimful.core.memory import cgroup, devices

from ...helpers.memory import pages
from .allocator import holds


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch):
    """Two GPUs, as far as names go."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture
def no_gpus(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


def test_auto_takes_the_first_gpu(gpus: None):
    assert devices.resolve() == torch.device("cuda", 0)


def test_auto_takes_the_cpu_without_one(no_gpus: None):
    assert devices.resolve("auto") == torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("cuda", "cuda:0"), ("cuda:1", "cuda:1"), ("cpu", "cpu"), ("cpu:0", "cpu"), (torch.device("cuda"), "cuda:0")],
)
def test_names_are_resolved(gpus: None, name: str | torch.device, expected: str):
    assert str(devices.resolve(name)) == expected


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x", "cuda:-1", "meta", "mps", "cuda:2", "cpu,"])
def test_a_wrong_name_says_so_and_what_to_use(gpus: None, name: str):
    with pytest.raises(DeviceError, match=r"(?s)'.*'.*'(auto|cpu)'"):
        devices.resolve(name)


@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_a_gpu_that_is_not_there_says_how_many_are(no_gpus: None, name: str):
    with pytest.raises(DeviceError, match=r"sees 0 CUDA"):
        devices.resolve(name)


def test_several_devices(gpus: None):
    both = [torch.device("cuda", 0), torch.device("cuda", 1)]
    assert devices.resolve_all("cuda:all") == both
    assert devices.resolve_all("cuda:0, cuda:1") == both
    assert devices.resolve_all(["cuda:0", torch.device("cuda", 1)]) == both
    assert devices.resolve_all(torch.device("cuda", 1)) == both[1:]
    assert devices.resolve_all(["cpu", "cpu"]) == [torch.device("cpu")] * 2


def test_one_gpu_twice_is_refused(gpus: None):
    with pytest.raises(DeviceError, match="twice"):
        devices.resolve_all("cuda,cuda:0")


def test_no_device_at_all_is_refused(no_gpus: None):
    with pytest.raises(DeviceError, match="empty"):
        devices.resolve_all([])
    with pytest.raises(DeviceError, match="sees 0 CUDA"):
        devices.resolve_all("cuda:all")


def test_the_container_is_smaller_than_the_host(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cgroup, "read", lambda: cgroup.Limit(total=10**8, free=10**7))
    memory = devices.memory(torch.device("cpu"))
    assert (memory.total, memory.free) == (10**8, 10**7)


def test_the_host_counts_where_the_container_allows_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cgroup, "read", lambda: None)
    host = devices.memory(torch.device("cpu"))
    monkeypatch.setattr(cgroup, "read", lambda: cgroup.Limit(total=10**18, free=10**18))
    assert devices.memory(torch.device("cpu")).total == host.total
    assert 0 < host.own < host.total
    assert 0 < host.free <= host.total


def test_cuda_memory_leaves_out_the_context(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (60, 100))
    holds(monkeypatch, 30)
    assert devices.memory(torch.device("cuda", 0)) == devices.Memory(total=100, free=60, own=30)


def test_resident_memory_follows_an_allocation():
    before = devices.resident_bytes()
    block = pages(100_000_000)
    assert devices.resident_bytes() - before > 80_000_000
    del block


def test_there_are_cores_and_a_model():
    assert cores() >= 1
    assert devices.model_name(torch.device("cpu")).startswith("CPU ")


@pytest.mark.gpu
def test_a_real_gpu_reports_its_memory():
    device = devices.resolve("cuda")
    block = torch.ones(25_000_000, device=device)
    memory = devices.memory(device)
    assert 100_000_000 <= memory.own <= memory.total - memory.free
    assert devices.model_name(device)
    del block


@pytest.mark.parametrize(
    ("kept", "pool", "expected"),
    [
        (0, (0, 0), ["emptied"]),
        (500_000_000, (0, 0), ["emptied", "cleared", "emptied"]),
        (500_000_000, (0, 1), ["emptied"]),  # a graph may have been captured with it
    ],
)
def test_what_a_matrix_product_keeps_goes_where_it_holds_much_more(
    monkeypatch: pytest.MonkeyPatch, kept: int, pool: tuple[int, int], expected: list[str]
):
    done: list[str] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: done.append("emptied"))
    holds(monkeypatch, 33_000_000 + kept, 33_000_000)
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: [{"segment_pool_id": pool}])
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: done.append("cleared"), raising=False)
    devices.release_cache(torch.device("cuda", 0))
    assert done == expected
    devices.release_cache(torch.device("cpu"))
    assert done == expected
