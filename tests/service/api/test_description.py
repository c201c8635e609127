"""The OpenAPI description: it is whole, its examples are true, and whatever it allows or forbids is answered, never by
a mistake of the service."""

from typing import Any
from unittest.mock import Mock

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode, checks

from brimful.service.api.app import create_app
from brimful.service.errors import NotFound
from brimful.service.jobs.state import JobState
from brimful.service.security.policy import SecurityPolicy

from ...conftest import SOAK
from ...helpers.fake_service import FakeService
from ...helpers.web import TestClient

_SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much]
_CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> FakeService:
    service = FakeService(tmp_path_factory.mktemp("run"))
    service.offered = FakeService.offered if SOAK else ("nets",)  # a schema of every workload takes long to draw from
    service.emit(service.add("one", JobState.FINISHED).id)
    return service


@pytest.fixture(scope="module")
def operations(service: FakeService) -> list[Any]:
    app = create_app(service, SecurityPolicy(require_token=False, burst=10**9))
    description: Any = schemathesis.openapi.from_asgi("/api/openapi.json", app)
    found = [result.ok() for result in description.get_all_operations()]
    return [operation for operation in found if operation.path.startswith("/api")]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The description of three workloads."""
    app = create_app(FakeService(tmp_path_factory.mktemp("run")), SecurityPolicy.for_host("127.0.0.1"))
    return TestClient(app, base_url="http://localhost").get("/api/openapi.json").json()


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_request_is_a_mistake_of_the_service(operations: list[Any], service: FakeService, mode: GenerationMode):
    """Requests as the description has them, and otherwise: to jobs that there are, too."""
    tried = 0
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and not (list(operation.query) or list(operation.body)):
            continue  # nothing of it can be wrong

        @given(case=operation.as_strategy(mode))
        @settings(max_examples=300 if SOAK else 3, suppress_health_check=_SLOW)
        def request(case: Any) -> None:
            nonlocal tried
            if case.operation.path.endswith("/events") and case.query:
                case.query["follow"] = "false"
            if "job_id" in (case.path_parameters or {}) and tried % 2:
                case.path_parameters["job_id"] = next(iter(service.stored), case.path_parameters["job_id"])
            tried += 1
            case.call_and_validate(checks=_CHECKS)

        request()
    assert tried > 25


def test_events_are_as_they_are_described(operations: list[Any], service: FakeService):
    """All of them, those after the last one, and those of a job that is deleted meanwhile."""
    job = service.add("two", JobState.FINISHED)
    service.emit(job.id)
    [operation] = [one for one in operations if one.path.endswith("/events")]
    for query in ({}, {"after": 1}, {"follow": False}):
        answer = operation.Case(path_parameters={"job_id": job.id}, query=query).call_and_validate(checks=_CHECKS)
        assert b"event: end" in answer.content
    there, service.job = service.job, Mock(side_effect=[job, NotFound("it was deleted")])
    try:
        answer = operation.Case(path_parameters={"job_id": job.id}).call_and_validate(checks=_CHECKS)
    finally:
        service.job = there
    assert b'"state":"deleted"' in answer.content


def described(document: dict[str, Any]) -> list[dict[str, Any]]:
    paths = [path for name, path in document["paths"].items() if name.startswith("/api")]
    return [operation for path in paths for operation in path.values()]


def validator(document: dict[str, Any], name: str) -> jsonschema_rs.Draft202012Validator:
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    return jsonschema_rs.Draft202012Validator(schema)


def test_the_examples_are_what_they_are_examples_of(document: dict[str, Any]):
    tried = 0
    for operation in described(document):
        for media in operation.get("requestBody", {}).get("content", {}).values():
            for example in media.get("examples", {}).values():
                validator(document, media["schema"]["$ref"].rpartition("/")[2]).validate(example["value"])
                tried += 1
    assert tried >= 5


def test_a_job_is_described_by_its_workload(document: dict[str, Any]):
    job = validator(document, "JobRequest")
    assert job.is_valid({"job_name": "a", "config": {"dataset": "x", "learning_rate": 0.1}})
    assert job.is_valid({"job_name": "a", "workload": "nets", "config": {}})
    for wrong in (
        {"config": {"dataset_ids": "x"}},
        {"job_name": "a", "config": {}},
        {"job_name": "a", "config": {"dataset_ids": "x", "dataset": "x"}},
        {"job_name": "a", "config": {"dataset_ids": "x", "epochs": 0}},
        {"job_name": "a", "config": {"dataset_ids": "x", "url": "postgresql://x"}},
        {"job_name": "a", "workload": "nets", "config": {"dataset_ids": "x"}},
        {"job_name": "a", "workload": "absent", "config": {}},
        {"job_name": "a", "config": {"dataset_ids": "x"}, "colour": "red"},
    ):
        assert not job.is_valid(wrong), wrong


def test_every_operation_is_described_with_its_refusals(document: dict[str, Any]):
    for operation in described(document):
        assert "application/problem+json" in operation["responses"]["4XX"]["content"]
        assert operation["summary"]
        assert any(status.startswith("2") for status in operation["responses"])
