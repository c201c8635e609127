"""The container's limit, read from made-up control group trees."""

from pathlib import Path

import pytest

from brimful.core.memory import cgroup
from brimful.core.memory.cgroup import Limit

GIB = 2**30


def lay(root: Path, files: dict[str, str | bytes | int]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else str(content).encode())
    return root


def v2(root: Path, group: str, files: dict[str, dict[str, str | bytes | int]]) -> Path:
    flat = {f"sys/fs/cgroup{folder}/{name}": text for folder, each in files.items() for name, text in each.items()}
    return lay(root, {"proc/self/cgroup": f"0::{group}\n", **flat})


def v1(root: Path, group: str, files: dict[str, dict[str, str | bytes | int]]) -> Path:
    flat = {
        f"sys/fs/cgroup/memory{folder}/memory.{name}": text
        for folder, each in files.items()
        for name, text in each.items()
    }
    return lay(root, {"proc/self/cgroup": f"9:name=systemd:/\n4:cpu,memory:{group}\n1:pids:/\n", **flat})


def test_no_control_groups(tmp_path: Path):
    assert cgroup.read(tmp_path) is None


def test_version_2_counts_droppable_cache_as_free(tmp_path: Path):
    stat = f"anon 5\ninactive_file {GIB}\nactive_file 7\n"
    v2(tmp_path, "/job", {"/job": {"memory.max": 8 * GIB, "memory.current": 3 * GIB, "memory.stat": stat}})
    assert cgroup.read(tmp_path) == Limit(total=8 * GIB, free=6 * GIB)


def test_version_2_max_is_no_limit(tmp_path: Path):
    v2(tmp_path, "/job", {"/job": {"memory.max": "max\n", "memory.current": 3 * GIB}})
    assert cgroup.read(tmp_path) is None


def test_the_tightest_of_nested_limits_counts(tmp_path: Path):
    v2(
        tmp_path,
        "/pod/box/job",
        {
            "/pod": {"memory.max": 4 * GIB, "memory.current": GIB},
            "/pod/box": {"memory.max": "max", "memory.current": GIB},
            "/pod/box/job": {"memory.max": 8 * GIB, "memory.current": 6 * GIB},
        },
    )
    assert cgroup.read(tmp_path) == Limit(total=4 * GIB, free=2 * GIB)


def test_a_path_only_the_host_sees_falls_back_to_the_mount(tmp_path: Path):
    v2(tmp_path, "/kubepods/pod7/abc", {"": {"memory.max": 2 * GIB, "memory.current": GIB}})
    assert cgroup.read(tmp_path) == Limit(total=2 * GIB, free=GIB)


def test_a_path_above_the_namespace_does_not_leave_the_mount(tmp_path: Path):
    v2(tmp_path, "/../../other", {"": {"memory.max": 2 * GIB, "memory.current": GIB}})
    lay(tmp_path, {"sys/memory.max": 1, "other/memory.max": 1})
    assert cgroup.read(tmp_path) == Limit(total=2 * GIB, free=GIB)


def test_version_1(tmp_path: Path):
    own = {
        "limit_in_bytes": 4 * GIB,
        "usage_in_bytes": 3 * GIB,
        "stat": f"inactive_file 1\ntotal_inactive_file {2 * GIB}\n",
    }
    v1(tmp_path, "/docker/abc", {"/docker/abc": own})
    assert cgroup.read(tmp_path) == Limit(total=4 * GIB, free=3 * GIB)


def test_version_1_in_a_container_reads_the_mount(tmp_path: Path):
    v1(tmp_path, "/docker/abc", {"": {"limit_in_bytes": 4 * GIB, "usage_in_bytes": GIB}})
    assert cgroup.read(tmp_path) == Limit(total=4 * GIB, free=3 * GIB)


def test_version_1_unlimited(tmp_path: Path):
    v1(tmp_path, "/", {"": {"limit_in_bytes": 9223372036854771712, "usage_in_bytes": GIB}})
    assert cgroup.read(tmp_path) is None


def test_hybrid_takes_the_tighter_of_both_versions(tmp_path: Path):
    v1(tmp_path, "/a", {"/a": {"limit_in_bytes": 4 * GIB, "usage_in_bytes": GIB}})
    lay(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/a\n0::/b\n",
            "sys/fs/cgroup/b/memory.max": 3 * GIB,
            "sys/fs/cgroup/b/memory.current": 0,
        },
    )
    assert cgroup.read(tmp_path) == Limit(total=3 * GIB, free=3 * GIB)


def test_used_past_the_limit_leaves_nothing(tmp_path: Path):
    v2(tmp_path, "/", {"": {"memory.max": GIB, "memory.current": 2 * GIB}})
    assert cgroup.read(tmp_path) == Limit(total=GIB, free=0)


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"12 34", b"lots", b"-1", b"1e9"])
def test_a_damaged_limit_is_no_limit(tmp_path: Path, damage: bytes):
    v2(tmp_path, "/job", {"/job": {"memory.max": damage, "memory.current": 0}})
    assert cgroup.read(tmp_path) is None


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"inactive_file", b"inactive_file x\n", b"\n\n"])
def test_damaged_statistics_leave_the_limit_standing(tmp_path: Path, damage: bytes):
    v2(tmp_path, "/", {"": {"memory.max": 2 * GIB, "memory.current": GIB, "memory.stat": damage}})
    assert cgroup.read(tmp_path) == Limit(total=2 * GIB, free=GIB)


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe\n", b"nonsense\n", b"0:\n", b":::\n"])
def test_a_damaged_list_of_groups_does_not_raise(tmp_path: Path, damage: bytes):
    lay(tmp_path, {"proc/self/cgroup": damage})
    assert cgroup.read(tmp_path) is None


def test_this_machine_can_be_read():
    limit = cgroup.read()
    assert limit is None or 0 <= limit.free <= limit.total
