"""Plans of requests by a service: files that options name, and what is wrong beside the option at fault."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from brimful.data import database
from brimful.service.errors import Conflict, Invalid
from brimful.service.jobs.fault import option_at_fault
from brimful.service.options import ServeOptions
from brimful.service.service import Service

from ..helpers.postgres import NewDatabase
from .api.test_stored_service import service_of


@pytest.fixture(scope="module")
def service(template: NewDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with template.copy() as copy:
        options = ServeOptions(state=tmp_path_factory.mktemp("state"), database=copy.url, cores=4, budget="4GB")
        yield from service_of(options)


def plan(service: Service, what: str, request: dict[str, Any] | None = None, **config: Any) -> dict[str, Any]:
    workload, command = what.split()
    named = {"job_name": "a job", "workload": workload, "command": command}
    return service.plan({**named, "config": {"device": "cpu", **config}, **(request or {})})


def refused(service: Service, what: str, **config: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as error:
        plan(service, what, **config)
    return {problem.path: problem.message for problem in error.value.problems}


def test_what_is_wrong_is_said_of_its_option_and_without_paths_of_the_server(service: Service):
    id = service.upload("answers.csv", io.BytesIO(b"who,what,value\n1,2,3\n")).id
    wrong = refused(service, "gpcm train", dataset=f"upload:{id}")
    assert wrong.keys() == {"config.dataset"}
    assert wrong["config.dataset"].startswith("upload:answers.csv has no column called student")
    assert refused(service, "wpo train", data="moonz").keys() == {"config.data"}
    assert refused(service, "gpcm train", dataset="nothing").keys() == {"config.dataset"}
    assert refused(service, "wpo train", data="moons", device="cuda").keys() == {"config.device"}
    assert refused(service, "gp fit", synthetic=5, data="dataset:nothing").keys() == {"config.data"}
    with pytest.raises(Invalid) as error:
        config = {"source": f"upload:{id}", "dataset": "a b"}
        service.submit({"job_name": "x", "workload": "data", "command": "import", "config": config})
    assert [problem.path for problem in error.value.problems] == ["config.dataset"]


def test_the_option_at_fault_is_the_one_whose_value_is_named():
    config = {
        "data": "/state/x y.csv",
        "device": "cuda",
        "lr": 0.0,
        "batch_size": 3,
        "model": "moons",
        "other": "moons",
    }
    assert option_at_fault("batch_size is 3, and there are 2 samples", config) == "batch_size"
    assert option_at_fault("--batch-size is 3, and there are 2 samples", config) == "batch_size"
    assert option_at_fault("/state/x y.csv, row 3: there is no number", config) == "data"
    assert option_at_fault("there is no device 'cuda'", config) == "device"
    assert option_at_fault("there are no 'moons'", config) is None  # which of both?
    assert option_at_fault("it cannot be planned", config) is None


def test_what_could_not_start_on_an_idle_machine_is_planned_with_a_warning(service: Service):
    assert plan(service, "gp fit", synthetic=20, budget="1GB")["warnings"] == []
    [warning] = plan(service, "nets train", {"cores": 5}, count=20)["warnings"]
    assert warning == {"path": "cores", "message": "it would wait: it needs 5 cores, and jobs may use 4; ask for fewer"}
    [warning] = plan(service, "gp fit", synthetic=20, budget="5GB")["warnings"]
    assert warning["path"] == "config.budget" and "the largest budget is 4.00 GB" in warning["message"]
    both = plan(service, "gp fit", {"cores": 5}, synthetic=20, budget="5GB")["warnings"]
    assert [one["path"] for one in both] == ["cores", "config.budget"]


def test_rows_of_a_dataset_are_a_table_for_options_that_read_one(service: Service):
    rng = np.random.default_rng(0)
    table = {"task": np.repeat(np.arange(6), 5), "x": rng.random(30), "y": rng.random(30)}
    database.import_dataset(table, "points", service.url)
    planned = plan(service, "gp fit", data="dataset:points")
    assert planned["plan"]["items"] == 6
    [file] = (service.state / "datasets").iterdir()
    assert pq.read_table(file).column_names == ["task", "x", "y"] and pq.read_table(file).num_rows == 30
    written = file.stat().st_mtime_ns
    file.with_name(f"{file.name}.0123abcd.part").touch()  # a server was killed while it wrote
    service.files.prepare()
    assert plan(service, "wpo train", data="dataset:points", centers=5)["plan"]["items"] == 5
    assert [one.stat().st_mtime_ns for one in (service.state / "datasets").iterdir()] == [written]
    request = {"job_name": "waits", "workload": "gp", "command": "fit", "config": {"data": "dataset:points"}}
    job = service.submit(request)
    with pytest.raises(Conflict, match="reads dataset:points"):
        service.delete_dataset("points")
    service.cancel(job.id)
    service.delete_dataset("points")
    assert list((service.state / "datasets").iterdir()) == []
    database.import_dataset({**table, "more": rng.random(30)}, "points", service.url)  # another one of that name
    assert plan(service, "gp fit", data="dataset:points")["plan"]["items"] == 6
    [file] = (service.state / "datasets").iterdir()
    assert "more" in pq.read_schema(file).names


def test_a_dataset_that_is_no_table_is_refused_beside_the_option(service: Service):
    database.import_dataset({"image": np.zeros((4, 2, 2), np.float32)}, "images", service.url)
    wrong = refused(service, "wpo train", data="dataset:images")
    assert "'image' of shape [2, 2], and a column of a table holds numbers" in wrong["config.data"]
    assert "takes no table" in refused(service, "programs run", file="dataset:images")["config.file"]
    assert list(service.state.glob("datasets/*")) == [] or not list(service.state.glob("datasets/images*"))


def test_lists_of_numbers_are_rows_of_a_score_model(service: Service, tmp_path: Path):
    database.import_dataset({"x": np.random.default_rng(0).random((40, 3), np.float32)}, "lists", service.url)
    planned = plan(service, "wpo train", data="dataset:lists", centers=8)
    assert dict(planned["plan"]["parts"])["centers"] == 8 * 3 * 4
