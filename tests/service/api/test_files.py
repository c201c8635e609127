"""Logs, artifacts and reports of a job."""

from ...helpers.fake_service import FakeService
from ...helpers.web import TestClient
from .test_jobs import JOBS, problem


def test_a_log_is_read_in_parts(client: TestClient, service: FakeService):
    path = f"{JOBS}/{service.add().id}/log"
    first = client.get(path, params={"limit": 4})
    rest = client.get(path, params={"after": first.headers["brimful-next"]})
    assert (first.content + rest.content).decode() == "grüße\n"
    assert first.headers["content-type"] == "text/plain; charset=utf-8"
    assert client.get(path, params={"after": rest.headers["brimful-next"]}).content == b""
    for query in ("after=-1", "limit=0", "limit=99999999999", "after=x"):
        problem(client.get(f"{path}?{query}"), 422)


def test_artifacts_are_listed_and_downloaded(client: TestClient, service: FakeService):
    path = f"{JOBS}/{service.add().id}/artifacts"
    assert [artifact["name"] for artifact in client.get(path).json()["artifacts"]] == ["a.txt"]
    answer = client.get(f"{path}/a.txt")
    assert answer.text == "a"
    assert answer.headers["content-disposition"].startswith("attachment")


def test_a_picture_is_shown_where_it_is_opened(client: TestClient, service: FakeService):
    answer = client.get(f"{JOBS}/{service.add().id}/artifacts/picture.png")
    assert answer.headers["content-disposition"].startswith("inline")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_page_that_a_job_wrote_is_not_shown_as_one(client: TestClient, service: FakeService):
    answer = client.get(f"{JOBS}/{service.add().id}/artifacts/page.html")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_no_name_leads_out_of_the_job(client: TestClient, service: FakeService):
    path = f"{JOBS}/{service.add().id}/artifacts"
    for name in (
        "../secret.txt",
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
        "/etc/passwd",
        "link.txt",
        "x%00",
        "%5c..%5c",
    ):
        problem(client.get(f"{path}/{name}"), 404)


def test_a_report_has_no_number_that_json_has_not(client: TestClient, service: FakeService):
    answer = client.get(f"{JOBS}/{service.add().id}/report")
    assert answer.json() == {"metrics": {"loss": None}, "tables": {}, "rows": {}, "pictures": [], "captions": {}}
