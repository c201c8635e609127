"""Plans of requests by a service: files that options name, and what is wrong beside the option at fault."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from brimful.data import database
from brimful.service.errors import Conflict, Invalid
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
