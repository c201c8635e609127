"""The API over the service itself and its database; jobs are queued, and none is run."""

import io
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jsonschema_rs
import numpy as np
import pytest

from brimful.core.runs.context import RunContext
from brimful.data import database
from brimful.locate.commands import generate_recordings
from brimful.locate.options import GenerateConfig
from brimful.service.api.app import create_app
from brimful.service.api.schemas import SCHEMAS
from brimful.service.options import ServeOptions
from brimful.service.runner import processes
from brimful.service.runner.workloads import Workloads
from brimful.service.security.policy import SecurityPolicy
from brimful.service.service import Service

from ...helpers.postgres import NewDatabase
from ...helpers.service_processes import ForkedForkServer
from ...helpers.web import TestClient
from .test_jobs import JOBS, SEED, problem

SQL = ("'; DROP TABLE job; --", "\\'; SELECT pg_sleep(9); --", "%s %(id)s _%")


@pytest.fixture(scope="module")
def service(template: NewDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with template.copy() as copy:
        yield from service_of(ServeOptions(state=tmp_path_factory.mktemp("state"), database=copy.url))


def service_of(options: ServeOptions) -> Iterator[Service]:
    service = Service(options)
    service.files.prepare()
    nothing = SimpleNamespace(wake=lambda: None, alive=True)
    runner = SimpleNamespace(scheduler=nothing, children=0, forget=lambda job: None)
    service._runner = runner  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "launch", ForkedForkServer)
        spawner = processes.Spawner()
        service._loaded = Workloads(spawner, lambda: service.url)
        yield service
        service._loaded.close()
        spawner.close()
    service.store.close()


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[TestClient]:
    policy = SecurityPolicy.for_host("127.0.0.1", burst=10**9)
    with TestClient(create_app(service, policy), base_url="http://localhost:8000") as client:
        yield client


def nets(name: str = "a job", **more: Any) -> dict[str, Any]:
    return {"job_name": name, "workload": "nets", "config": {"steps": 1}, "budget": "1GB", **more}


def test_a_dataset_that_there_is_not_is_named_with_those_there_are(client: TestClient, service: Service):
    generate_recordings(GenerateConfig(samples=32, name="UHF_night", url=service.url), RunContext())
    document = problem(client.post(JOBS, json=SEED), 422)
    assert "UHF_night" in document["detail"]
    assert SEED["config"]["dataset_ids"][0] in document["detail"]
    assert [error["path"] for error in document["errors"]] == ["config.dataset_ids"]


def test_the_first_document_makes_a_job_where_there_is_its_dataset(client: TestClient, service: Service):
    name = SEED["config"]["dataset_ids"][0]
    generate_recordings(GenerateConfig(samples=32, name=name, url=service.url), RunContext())
    answer = client.post(JOBS, json={**SEED, "budget": "1GB"})
    assert answer.status_code == 201, answer.text
    job = client.get(answer.headers["location"]).json()
    assert job["config"]["lr"] == 0.001
    assert job["config"]["epochs"] == 1000
    assert "url" not in job["config"]


def test_every_wrong_field_is_named_at_once(client: TestClient):
    body = nets("a\nb", priority=1000, colour="red", webhook={"url": "ftp://x"}, budget="much")
    body["config"] = {"steps": 0, "count": "many", "stpes": 3, "out": "/etc"}
    document = problem(client.post(JOBS, json=body), 422)
    named = {error["path"] for error in document["errors"]}
    assert {
        "job_name",
        "priority",
        "colour",
        "webhook.url",
        "budget",
        "config.steps",
        "config.count",
        "config.out",
    } <= named
    assert all(error["message"] for error in document["errors"])


def test_sql_in_every_text_is_text(client: TestClient, service: Service):
    before = client.get(JOBS).json()["total"]
    for text in SQL:
        answer = client.post(JOBS, json=nets(text))
        assert answer.json()["job_name"] == text
        path = f"{JOBS}/{answer.json()['id']}"
        found = client.get(JOBS, params={"text": text}).json()["jobs"]
        assert [job["job_name"] for job in found] == [text]
        assert client.get(f"{path}/metrics", params={"name": text}).json() == {"metrics": {}}
        assert client.get(JOBS, params={"workload": text}).json()["jobs"] == []
        for wrong in (
            nets(workload=text),
            nets(command=text),
            nets(budget=text),
            nets(config={"device": text}),
            nets(config={text: 1}),
            nets(webhook=text),
            nets(priority=text),
            {**SEED, "config": {"dataset_ids": [text]}},
            {**SEED, "config": {"dataset_ids": text}},
        ):
            assert client.post(JOBS, json=wrong).status_code in (201, 422)
        for query in ({"cursor": text}, {"sort": text}, {"state": text}):
            problem(client.get(JOBS, params=query), 422)
        problem(client.get(f"/api/datasets/{text}".replace("%", "%25")), 404)
        problem(client.post("/api/datasets", json={"name": text, "upload": text, "columns": [text]}), 422)
        problem(client.put("/api/devices/budget", json={"budget": text}), 422)
        problem(client.get(f"{path}/artifacts/{text}".replace("%", "%25")), 404)
        assert service.check_token(text) is None
    assert client.get(JOBS).json()["total"] > before
    assert client.get("/readyz").json()["database"]


def test_no_option_reads_or_writes_outside_a_job(client: TestClient):
    fit = {"job_name": "a", "workload": "gp", "command": "fit"}
    for config in (
        {"data": "/etc/passwd"},
        {"data": "../../secret.parquet"},
        {"data": "upload:../../x"},
        {"data": "upload:00000000-0000-0000-0000-000000000000/../../../etc/passwd"},
        {"data": "job:00000000-0000-0000-0000-000000000000/../x"},
        {"data": "~/x.parquet"},
    ):
        assert "config.data" in [
            error["path"] for error in problem(client.post(JOBS, json={**fit, "config": config}), 422)["errors"]
        ]
    for name in ("/etc/x.parquet", "../x.csv", "x/y.parquet", "~x.csv"):
        problem(client.post(JOBS, json={"job_name": "a", "config": {"dataset_ids": name}}), 422)
    for config in ({"out": "/tmp/x"}, {"out": "../x"}, {"url": "postgresql://elsewhere/db"}):
        answer = client.post(JOBS, json={**SEED, "config": {**SEED["config"], **config}})
        assert f"config.{next(iter(config))}" in [error["path"] for error in problem(answer, 422)["errors"]]


def test_a_query_cannot_be_imported(client: TestClient):
    config = {"dataset": "stolen", "source": "SELECT digest FROM brimful_service.token"}
    body = {"job_name": "a", "workload": "data", "command": "import", "config": config}
    assert "config.source" in [error["path"] for error in problem(client.post(JOBS, json=body), 422)["errors"]]


def test_pages_are_whole_and_nothing_is_twice(client: TestClient):
    for number in range(7):
        assert client.post(JOBS, json=nets(f"page {number % 3}", priority=number % 2)).status_code == 201
    for sort in ("created", "-created", "name", "-priority", "state"):
        ids, cursor = [], None
        while True:
            query = {"sort": sort, "limit": 3, "text": "page", **({"cursor": cursor} if cursor else {})}
            page = client.get(JOBS, params=query).json()
            ids += [job["id"] for job in page["jobs"]]
            if (cursor := page["next"]) is None:
                break
        assert len(ids) == len(set(ids)) == page["total"] == 7


def test_a_job_that_waits_is_paused_resumed_cancelled_retried_and_deleted(client: TestClient):
    path = client.post(JOBS, json=nets()).headers["location"]
    problem(client.delete(path), 409)
    assert client.post(f"{path}/pause").json()["state"] == "paused"
    assert client.post(f"{path}/resume").json()["state"] == "queued"
    assert client.post(f"{path}/cancel").json()["state"] == "cancelled"
    problem(client.post(f"{path}/resume"), 409)
    assert client.post(f"{path}/retry").json()["state"] == "queued"
    assert client.post(f"{path}/cancel").json()["state"] == "cancelled"
    stream = client.get(f"{path}/events").text
    assert stream.count('"kind":"state"') == 6
    assert stream.rstrip().rpartition("\n\n")[2].startswith("event: end")
    assert client.get(f"{path}/plan").json() == {"plan": None}
    assert client.get(f"{path}/log").content == b""
    assert client.get(f"{path}/artifacts").json() == {"artifacts": []}
    assert client.get(f"{path}/report").json()["pictures"] == []
    assert client.delete(path).status_code == 204
    problem(client.get(f"{path}/events"), 404)


def test_an_upload_is_kept_named_by_a_job_and_not_deleted_meanwhile(client: TestClient, service: Service):
    content = io.BytesIO()
    np.save(content, np.arange(8.0))
    stored = client.post("/api/uploads", params={"name": "x.npy"}, content=content.getvalue()).json()
    assert client.get("/api/uploads").json()["uploads"][0] == stored
    job = client.post("/api/datasets", json={"name": "new", "upload": stored["id"]})
    assert job.status_code == 202, job.text
    assert job.json()["config"]["source"] == f"upload:{stored['id']}"
    problem(client.delete(f"/api/uploads/{stored['id']}"), 409)
    client.post(f"{job.headers['location']}/cancel")
    assert client.delete(f"/api/uploads/{stored['id']}").status_code == 204
    assert list((service.state / "uploads").iterdir()) == []
    problem(client.post("/api/datasets", json={"name": "new", "upload": stored["id"]}), 422)


def test_a_refused_upload_leaves_nothing_behind(client: TestClient, service: Service):
    for name, content in (("x.npy", b"no"), ("x.zip", b"no"), ("x.pkl", b"no")):
        problem(client.post("/api/uploads", params={"name": name}, content=content), 422)
    assert list((service.state / "uploads").iterdir()) == []
    assert client.get("/api/uploads").json() == {"uploads": []}


def test_datasets_are_listed_shown_verified_and_deleted(client: TestClient, service: Service):
    database.import_dataset({"x": np.arange(5.0)}, "five", service.url)
    assert "five" in [dataset["name"] for dataset in client.get("/api/datasets").json()["datasets"]]
    assert client.get("/api/datasets/five").json()["rows"] == 5
    assert client.post("/api/datasets/five/verify").status_code == 202
    assert client.delete("/api/datasets/five").status_code == 204
    problem(client.get("/api/datasets/five"), 404)
    problem(client.post("/api/datasets/five/verify"), 404)


def test_a_token_of_the_service_lets_in(service: Service):
    policy = SecurityPolicy.for_host("0.0.0.0")
    client = TestClient(create_app(service, policy), base_url="http://brimful.example")
    reader, writer = service.create_token(["read"]), service.create_token(["write"])
    problem(client.get(JOBS), 401)
    assert client.get(JOBS, headers={"authorization": f"Bearer {reader}"}).status_code == 200
    problem(client.post(JOBS, json=nets(), headers={"authorization": f"Bearer {reader}"}), 403)
    assert client.post(JOBS, json=nets(), headers={"authorization": f"Bearer {writer}"}).status_code == 201
    wrong = reader[:-1] + ("A" if reader[-1] != "A" else "B")
    problem(client.get(JOBS, headers={"authorization": f"Bearer {wrong}"}), 401)
    with service.store.pool.session() as connection:
        stored = connection.execute("SELECT t::text FROM token t").fetchall()
    assert reader.rpartition("_")[2] not in str(stored)


def test_a_new_workload_needs_no_line_in_the_service(client: TestClient):
    shown = client.get("/api/workloads/made").json()
    commands = {command["command"]: command["schema"] for command in shown["commands"]}
    assert commands["fit"]["properties"]["rate"]["exclusiveMaximum"] == 1
    description = client.get("/api/openapi.json").json()["components"]["schemas"]
    assert description["made_fit_config"]["properties"]["kernel"]["enum"] == ["rbf", "matern"]
    made = {"job_name": "a", "workload": "made", "command": "fit", "budget": "1GB"}
    assert client.post(JOBS, json={**made, "config": {"points": 3}}).json()["config"]["points"] == 3
    document = problem(client.post(JOBS, json={**made, "config": {"points": 0, "kernel": "sine"}}), 422)
    assert {error["path"] for error in document["errors"]} == {"config.points", "config.kernel"}
    assert "rbf, matern" in document["detail"]
    assert "predict" not in commands


def test_devices_are_as_they_are_described(client: TestClient):
    devices = client.get("/api/devices").json()
    schema = {"$ref": "#/components/schemas/Devices", "components": {"schemas": SCHEMAS}}
    jsonschema_rs.Draft202012Validator(schema).validate(devices)
    assert "cpu" in [device["device"] for device in devices["devices"]]
    assert client.put("/api/devices/budget", json={"budget": "1GB"}).status_code == 200
    assert client.get("/api/devices").json()["devices"][-1]["budget_bytes"] <= 10**9
    assert client.put("/api/devices/budget", json={"budget": None}).status_code == 200
