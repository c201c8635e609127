"""Routes of jobs, on a service in memory: what is asked for, what is given, what is refused."""

import math
from typing import Any

from brimful.service.jobs.job import JobFilter, new_id
from brimful.service.jobs.state import JobState

from ...helpers.fake_service import FakeService
from ...helpers.web import TestClient

JOBS = "/api/training/jobs"
SEED = {
    "job_name": "GPU Cache Test - UHF Mixed",
    "config": {
        "dataset_ids": ["29b7b2f4-eb9b-4e22-a77f-c03f0c4ca876"],
        "batch_size": 256,
        "epochs": 1000,
        "learning_rate": 0.001,
        "preload_to_gpu": True,
        "accelerator": "auto",
    },
}


def problem(response: Any, status: int) -> dict[str, Any]:
    """The problem of a refused request, which has all that a problem has."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert document["status"] == status
    assert document["type"].startswith("urn:brimful:problem:")
    assert document["title"]
    assert document["detail"]
    return document


def test_the_body_of_the_first_document_makes_a_job(client: TestClient):
    response = client.post(JOBS, json=SEED)
    assert response.status_code == 201, response.text
    job = response.json()
    assert response.headers["location"] == f"{JOBS}/{job['id']}"
    assert job["state"] == "queued"
    assert (job["workload"], job["command"]) == ("locate", "train")
    assert job["created"].endswith("Z")
    assert client.get(response.headers["location"]).json() == job
    assert client.get(f"/api/jobs/{job['id']}").json() == job


def test_a_wrong_field_is_named(client: TestClient):
    document = problem(client.post(JOBS, json={"job_name": "a", "config": {"epohcs": 3}}), 422)
    assert document["errors"][0]["path"].startswith("config")
    assert "epohcs" in document["detail"]


BODIES = (
    (b"{", "application/json", 400, "JSON"),
    (b"", "application/json", 400, "JSON"),
    (b"\xff", "application/json", 400, "UTF-8"),
    (b'{"a": NaN}', "application/json", 400, "NaN"),
    (b'{"a": 1e999}', "application/json", 400, "1e999"),
    (b'{"a": 1, "a": 2}', "application/json", 400, "twice"),
    (b'{"a": ' + b"9" * 5000 + b"}", "application/json", 400, "JSON"),
    (b"[" * 9000, "application/json", 400, "deeply"),
    (b'{"a":' + b"[" * 30 + b"]" * 30 + b"}", "application/json", 422, "nested"),
    (b"[]", "application/json", 422, "a list"),
    (b"3", "application/json", 422, "a number"),
    (b'{"job_name": "a\\u0000b"}', "application/json", 422, "job_name"),
    (b'{"config": {"x": ["\\ud800"]}}', "application/json", 422, "config.x.0"),
    (b'{"\\u0000": 1}', "application/json", 422, "NUL"),
    (b"{}", "text/plain", 415, "application/json"),
    (b"a=b", "application/x-www-form-urlencoded", 415, "application/json"),
)


def test_bodies_that_are_not_understood(client: TestClient):
    for body, type, status, said in BODIES:
        document = problem(client.post(JOBS, content=body, headers={"content-type": type}), status)
        assert said in document["detail"]


def test_names_with_control_characters_are_refused(client: TestClient):
    document = problem(client.post(JOBS, json={"job_name": "a\x1b[2Jb", "config": {}}), 422)
    assert "job_name" in [error["path"] for error in document["errors"]]
    assert "\x1b" not in document["detail"]


def test_the_list_is_filtered_sorted_and_paged(client: TestClient, service: FakeService):
    for number in range(5):
        service.add(f"job {number}", JobState.RUNNING if number % 2 else JobState.QUEUED)
    first = client.get(JOBS, params={"limit": 2}).json()
    rest = client.get(JOBS, params={"limit": 3, "cursor": first["next"]}).json()
    assert [job["job_name"] for job in first["jobs"] + rest["jobs"]] == [f"job {number}" for number in range(5)]
    assert rest["next"] is None
    assert rest["total"] == 5
    client.get(JOBS, params={"state": ["running", "failed"], "workload": "gp", "text": "night", "sort": "-priority"})
    assert service.filter == JobFilter(
        states=(JobState.RUNNING, JobState.FAILED), workload="gp", text="night", sort="-priority"
    )


QUERIES = (
    ("state=lost", "state"),
    ("sort=password", "sort"),
    ("sort=created;DROP TABLE jobs", "sort"),
    ("limit=0", "limit"),
    ("limit=501", "limit"),
    ("limit=many", "limit"),
    ("cursor=x", "cursor"),
    ("text=%00", "text"),
    ("text=" + "a" * 201, "text"),
    ("colour=red", "colour"),
)


def test_a_wrong_parameter_is_named(client: TestClient):
    for query, name in QUERIES:
        document = problem(client.get(f"{JOBS}?{query}"), 422)
        assert any(error["path"].startswith(name) and error["message"] for error in document["errors"])


def test_what_can_be_asked_of_a_job(client: TestClient, service: FakeService):
    job = service.add(state=JobState.RUNNING)
    assert client.post(f"{JOBS}/{job.id}/pause").json()["state"] == "pausing"
    service.move(job.id, JobState.PAUSED)
    assert client.post(f"{JOBS}/{job.id}/resume").json()["state"] == "queued"
    assert client.post(f"{JOBS}/{job.id}/cancel").json()["state"] == "cancelled"
    answer = client.post(f"{JOBS}/{job.id}/retry")
    assert (answer.status_code, answer.json()["state"]) == (202, "queued")
    service.move(job.id, JobState.FINISHED)
    assert "finished" in problem(client.post(f"{JOBS}/{job.id}/pause"), 409)["detail"]
    assert client.delete(f"{JOBS}/{job.id}").status_code == 204
    problem(client.get(f"{JOBS}/{job.id}"), 404)


def test_jobs_that_there_are_not(client: TestClient):
    for id in (new_id(), "1", "x" * 3000, "%00", "..%2f..%2fetc", "' OR 1=1 --"):
        for path in ("", "/metrics", "/events", "/log", "/artifacts", "/artifacts/a", "/report", "/plan"):
            problem(client.get(f"{JOBS}/{id}{path}"), 404)


def test_metrics_are_columns_in_utc_and_a_number_that_is_none_is_null(client: TestClient, service: FakeService):
    job = service.add()
    service.series[job.id] = {"loss": [(1, 0.0, 0.5), (2, 1.0, math.nan), (3, 2.0, math.inf)]}
    answer = client.get(f"{JOBS}/{job.id}/metrics", params={"name": ["loss"], "points": 10, "first": 1, "last": 3})
    assert answer.json()["metrics"]["loss"]["value"] == [0.5, None, None]
    assert answer.json()["metrics"]["loss"]["total"] == 3
    assert answer.json()["metrics"]["loss"]["time"][1] == "1970-01-01T00:00:01.000000Z"
    assert service.asked == (["loss"], 10, 1, 3)
    for query in ("points=1", "points=1000000", "first=-1", "last=99999999999999999999"):
        problem(client.get(f"{JOBS}/{job.id}/metrics?{query}"), 422)


def test_the_plan_is_the_last_that_was_made(client: TestClient, service: FakeService):
    job = service.add()
    assert client.get(f"{JOBS}/{job.id}/plan").json() == {"plan": None}
    for strategy in ("whole", "split"):
        service.emit(job.id, "planned", plan={"strategy": strategy})
        service.emit(job.id)
    assert client.get(f"{JOBS}/{job.id}/plan").json() == {"plan": {"strategy": "split"}}


def test_a_password_in_a_config_is_not_shown(client: TestClient, service: FakeService):
    job = service.add(url="postgresql://ann:swordfish@db/jobs")
    assert "swordfish" not in client.get(f"{JOBS}/{job.id}").text
    assert "swordfish" not in client.get(JOBS).text
    assert "ann" in client.get(JOBS).text
