"""`brimful serve` from its start to its end: requests over HTTP, jobs by real processes."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from brimful.core.runs.context import RunContext
from brimful.locate.commands import generate_recordings
from brimful.locate.options import GenerateConfig

from ..helpers.service_processes import ServerProcess
from ..helpers.stopping import wait_for

DATASET = "29b7b2f4-eb9b-4e22-a77f-c03f0c4ca876"
CURL = """curl -X POST http://localhost:8000/api/training/jobs \\
  -H "Content-Type: application/json" \\
  -d '{
    "job_name": "GPU Cache Test - UHF Mixed",
    "config": {
      "dataset_ids": ["29b7b2f4-eb9b-4e22-a77f-c03f0c4ca876"],
      "batch_size": 256,
      "epochs": 1000,
      "learning_rate": 0.001,
      "preload_to_gpu": true,
      "accelerator": "auto"
    }
  }'"""


@pytest.fixture
def server(url: str, tmp_path: Path) -> Iterator[ServerProcess]:
    made = ServerProcess(tmp_path / "state", database=url, cores=2, budget="4GB")
    yield made
    assert made.stop() == 0


def run_curl(server: ServerProcess, epochs: int) -> dict[str, Any]:
    """Types the command, with the port that the server has."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    port = server.url.rpartition(":")[2]
    command = CURL.replace('"epochs": 1000', f'"epochs": {epochs}').replace(":8000/", f":{port}/")
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_seed(server: ServerProcess, url: str, epochs: int) -> None:
    refused = run_curl(server, epochs)
    assert refused["status"] == 422 and [error["path"] for error in refused["errors"]] == ["config.dataset_ids"]
    assert DATASET in refused["detail"]
    generate_recordings(GenerateConfig(samples=64, name=DATASET, url=url), RunContext())
    job = run_curl(server, epochs)
    assert job["workload"] == "locate" and job["config"]["epochs"] == epochs
    jobs = f"{server.url}/api/training/jobs"
    with httpx.Client() as client:

        def now() -> dict[str, Any]:
            return client.get(f"{jobs}/{job['id']}").json()

        wait_for(lambda: now()["state"] in ("finished", "failed"), 500, 0.1)
        assert now()["state"] == "finished", now()["message"]
        ended = now()["progress"]["epoch"]
        assert min(epochs, job["config"]["patience"]) <= ended <= epochs  # it may stop early
        losses = client.get(f"{jobs}/{job['id']}/metrics", params={"name": "train_loss", "points": 2000}).json()
        assert len(losses["metrics"]["train_loss"]["step"]) == losses["metrics"]["train_loss"]["total"] == ended
        names = {one["name"] for one in client.get(f"{jobs}/{job['id']}/artifacts").json()["artifacts"]}
        assert "history.parquet" in names
        assert client.get(f"{jobs}/{job['id']}/report").json()["metrics"]


def test_the_command_of_the_first_request_from_its_submission_to_its_end(server: ServerProcess, url: str):
    check_seed(server, url, 3)


@pytest.mark.soak
def test_the_command_of_the_first_request_as_it_was_written(server: ServerProcess, url: str):
    check_seed(server, url, 1000)
