"""A Ray cluster of three nodes on this machine, for the tests of this folder."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ....helpers.paths import ROOT

STORE = 100 * 2**20  # bytes of each node's object store


@pytest.fixture(scope="session")
def ray_nodes() -> Iterator[Any]:
    """`ray.cluster_utils.Cluster` of three nodes with one CPU each; this process is connected to it."""
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patched.setenv("RAY_TMPDIR", folder)  # where the cluster's address is written, in a folder that nobody makes
        Path(folder, "ray").mkdir()
        patched.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        patched.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))  # of processes that nodes start
        patched.delenv("RAY_ADDRESS", raising=False)
        ray = pytest.importorskip("ray")
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False, "temp_dir": folder}
        nodes = Cluster(initialize_head=True, head_node_args=head)
        for _ in range(2):
            nodes.add_node(num_cpus=1, object_store_memory=STORE)
        ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
        try:
            yield nodes
        finally:
            ray.shutdown()
            nodes.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cluster(ray_nodes: Any) -> str:
    """The address of that cluster."""
    return ray_nodes.address
