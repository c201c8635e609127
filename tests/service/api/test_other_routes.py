"""Datasets, uploads, plans, workloads, devices, and paths that there are not."""

import io

import numpy as np
import pytest

from ...helpers.fake_service import FakeService
from ...helpers.web import TestClient
from .test_jobs import JOBS, problem


def npy() -> bytes:
    out = io.BytesIO()
    np.save(out, np.arange(10.0))
    return out.getvalue()


def upload(client: TestClient, name: str = "x.npy", content: bytes | None = None):
    return client.post("/api/uploads", params={"name": name}, content=npy() if content is None else content)


def test_a_file_is_uploaded_listed_and_deleted(client: TestClient):
    answer = upload(client)
    assert answer.status_code == 201, answer.text
    stored = answer.json()
    assert answer.headers["location"] == f"/api/uploads/{stored['id']}"
    assert stored["bytes"] == len(npy())
    assert client.get("/api/uploads").json() == {"uploads": [stored]}
    assert client.delete(answer.headers["location"]).status_code == 204
    problem(client.delete(answer.headers["location"]), 404)
    problem(client.delete("/api/uploads/1"), 404)


def test_names_of_uploads_that_are_refused(client: TestClient):
    for name in ("../x.npy", "/x.npy", "a\\x.npy", ".x.npy", "x.pkl", "x", "", "a\nb.npy", "a" * 300):
        problem(upload(client, name), 422)
    assert client.get("/api/uploads").json() == {"uploads": []}


def test_a_malicious_upload_is_refused(client: TestClient):
    assert "refused" in problem(upload(client, content=npy() + b"x"), 422)["detail"]
    assert "refused" in problem(upload(client, "x.parquet"), 422)["detail"]


def test_a_form_is_no_file(client: TestClient):
    answer = client.post("/api/uploads?name=x.npy", files={"file": npy()})
    assert "--data-binary" in problem(answer, 415)["detail"]


def test_an_upload_without_a_name(client: TestClient):
    assert problem(client.post("/api/uploads", content=b""), 422)["errors"][0]["path"] == "name"


def test_datasets(client: TestClient):
    assert [dataset["name"] for dataset in client.get("/api/datasets").json()["datasets"]] == ["night"]
    assert client.get("/api/datasets/night").json()["rows"] == 3
    answer = client.post("/api/datasets/night/verify")
    assert answer.status_code == 202
    assert answer.headers["location"] == f"{JOBS}/{answer.json()['id']}"
    assert client.delete("/api/datasets/night").status_code == 204
    for path in ("night", "x" * 300, "%00", "' OR 1=1"):
        problem(client.get(f"/api/datasets/{path}"), 404)
        problem(client.delete(f"/api/datasets/{path}"), 404)
        problem(client.post(f"/api/datasets/{path}/verify"), 404)


def test_a_dataset_is_imported_from_an_upload(client: TestClient):
    stored = upload(client).json()
    answer = client.post("/api/datasets", json={"name": "new", "upload": stored["id"], "columns": ["x"]})
    assert answer.status_code == 202
    assert answer.json()["config"] == {"columns": ["x"]}


def test_a_wrong_import_is_named(client: TestClient):
    whole = {"name": "x", "upload": "x"}
    for body, path in (
        ({"upload": "x"}, "name"),
        ({"name": "x"}, "upload"),
        (whole | {"name": 3}, "name"),
        (whole | {"columns": "x"}, "columns"),
        (whole | {"columns": [3]}, "columns.0"),
        (whole | {"columns": []}, "columns"),
        (whole | {"query": "SELECT 1"}, "query"),
        (whole, "upload"),
    ):
        assert path in [error["path"] for error in problem(client.post("/api/datasets", json=body), 422)["errors"]]


def test_a_plan_runs_nothing(client: TestClient, service: FakeService):
    assert client.post("/api/plans", json={"job_name": "a", "config": {"dataset_ids": "x"}}).json()["plan"] == {
        "strategy": "whole"
    }
    assert not service.stored
    problem(client.post("/api/plans", json={"job_name": "a", "config": {"x": 1}}), 422)


def test_workloads_have_schemas(client: TestClient):
    workloads = client.get("/api/workloads").json()["workloads"]
    train = next(command for command in workloads[0]["commands"] if command["command"] == "train")
    assert train["schema"]["properties"]["epochs"]["default"] == 100
    assert client.get("/api/workloads/locate").json() == workloads[0]
    assert "locate" in problem(client.get("/api/workloads/absent"), 404)["detail"]


def test_devices_and_their_budget(client: TestClient, service: FakeService):
    assert client.get("/api/devices").json()["devices"][0]["device"] == "cpu"
    assert client.put("/api/devices/budget", json={"budget": "8GB"}).status_code == 200
    assert service.budget == "8GB"
    for body in ({}, {"budget": 3}, {"budget": None, "device": "cpu"}):
        problem(client.put("/api/devices/budget", json=body), 422)


def test_paths_that_there_are_not_are_problems(client: TestClient):
    for path in ("/api", "/api/", "/api/nothing", "/api/training", "/api/jobs/", "/api/../x", "/x"):
        problem(client.get(path), 404)
        problem(client.post(path), 404)


def test_methods_that_there_are_not_say_which_there_are(client: TestClient):
    answer = client.patch(JOBS)
    assert "PATCH" in problem(answer, 405)["detail"]
    assert answer.headers["allow"] == "GET, POST"
    problem(client.put("/api/uploads"), 405)


def test_a_mistake_of_the_service_tells_nothing_of_itself(service: FakeService, monkeypatch: pytest.MonkeyPatch):
    from brimful.service.api.app import create_app
    from brimful.service.security.policy import SecurityPolicy

    def broken() -> list:
        raise RuntimeError("postgresql://ann:swordfish@db")

    monkeypatch.setattr(service, "devices", broken)
    app = create_app(service, SecurityPolicy.for_host("127.0.0.1"))
    client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    answer = client.get("/api/devices")
    problem(answer, 500)
    assert "swordfish" not in answer.text
