"""Requests: every wrong field is named, and no path leads out."""

from pathlib import Path
from typing import Any

import pytest

from brimful.core.declare import registry
from brimful.service.errors import Invalid, NotFound
from brimful.service.jobs.references import references, resolve
from brimful.service.jobs.request import describe, job_schema, parse

from ...helpers import job_workload

ID = "01a1eac1-e630-772f-94e5-493d84cc78f5"


@pytest.fixture(autouse=True)
def workload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.WORKLOADS, job_workload.NAME, "tests.helpers.job_workload")


def problems(**request: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        parse({"job_name": "a job", "workload": "steps", **request})
    return {problem.path: problem.message for problem in refused.value.problems}


def test_the_curl_of_the_seed_is_understood_as_written():
    config = {
        "dataset_ids": ["29b7b2f4-eb9b-4e22-a77f-c03f0c4ca876", "other"],
        "batch_size": 256,
        "epochs": 1000,
        "learning_rate": 0.001,
        "preload_to_gpu": True,
        "accelerator": "auto",
    }
    request = parse({"job_name": "GPU Cache Test - UHF Mixed", "config": config}).request
    assert (request.workload, request.command, request.priority) == ("locate", "train", 0)
    assert request.config["dataset_ids"] == "29b7b2f4-eb9b-4e22-a77f-c03f0c4ca876,other"
    assert request.config["lr"] == 0.001 and request.config["patience"] == 20
    assert not {"out", "url"} & set(request.config)


def test_all_wrong_fields_are_named_at_once():
    found = problems(
        job_name="a\x00b",
        priority=101,
        cores="2",
        budget="lots",
        colour="red",
        webhook={"url": "ftp://x"},
        config={"epochs": 0, "pause": "long", "epoch": 3},
    )
    assert set(found) == {
        *("job_name", "priority", "cores", "budget", "colour", "webhook.url"),
        *("config.epochs", "config.pause", "config.epoch"),
    }
    assert found["config.epochs"] == "epochs is 0; it must be at least 1"
    assert "did you mean 'epochs'" in found["config.epoch"] and "U+0000" in found["job_name"]


def test_workloads_and_commands_that_are_no_jobs():
    assert "there is no workload 'none'; there are" in problems(workload="none")["workload"]
    assert "no command 'show' that can be a job; there are train, wait" in problems(command="show")["command"]
    assert set(problems(workload=7)) == set(problems(workload=[])) == {"workload"}


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", "~/x", "x", f"job:{ID}/../../x", "upload:1", "C:\\x", "", " ", "x\x00y"]
)
def test_a_path_is_an_upload_or_another_job(path: str):
    assert set(problems(command="wait", config={"model": path})) == {"config.model"}


@pytest.mark.parametrize("value", ["SELECT 1", "/data/x.npy", "a,/b", "../x.npy", ".x"])
def test_a_text_that_may_name_files_is_a_plain_name_or_a_reference(value: str):
    found = problems(workload="data", command="import", config={"source": value, "dataset": "x"})
    assert set(found) == {"config.source"}


def test_what_the_server_sets_cannot_be_set(tmp_path: Path):
    assert set(problems(config={"out": "x"})) == {"config.out"}
    found = problems(workload="data", command="verify", config={"name": "x", "url": "postgresql://other"})
    assert "the server sets it" in found["config.url"]


def test_references_become_paths_and_output_lies_in_the_run_directory(tmp_path: Path):
    parsed = parse(
        {
            "job_name": "a",
            "workload": "locate",
            "command": "predict",
            "config": {"directory": f"job:{ID}", "data": f"upload:{ID}"},
        }
    )
    assert parsed.request.config["out"] == "predictions.parquet"
    assert references(parsed.request.config) == {f"job:{ID}", f"upload:{ID}"}
    command = describe("locate", parsed.command)
    resolved = resolve(command, parsed.request.config, tmp_path, lambda kind, *_: tmp_path / kind)
    assert resolved["directory"] == str(tmp_path / "job") and resolved["data"] == str(tmp_path / "upload")
    assert resolved["out"] == str(tmp_path / "predictions.parquet")

    def nowhere(kind: str, id: str, name: str | None) -> Path:
        raise NotFound("there is no such file")

    with pytest.raises(Invalid, match="no such file"):
        resolve(command, parsed.request.config, tmp_path, nowhere)


def test_the_schema_offers_what_a_job_may_set():
    train, predict = (registry.load("locate").command(name) for name in ("train", "predict"))
    assert not {"url", "out"} & set(job_schema(train)["properties"])
    schema = job_schema(predict)
    assert "out" in schema["properties"] and schema["required"] == ["directory", "data"]
