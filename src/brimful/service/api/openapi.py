"""The OpenAPI description: what FastAPI knows of the routes, with the schemas of what they take and give."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from ..problem import MEDIA_TYPE
from .config_schemas import job_request_schemas
from .schemas import EXAMPLES, SCHEMAS

_METHODS = ("get", "put", "post", "delete")


def _reference(schema: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{schema}"}


def answer(schema: str, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """What a route gives, by the name of its schema."""
    media = {"schema": _reference(schema)} | ({"example": EXAMPLES[schema]} if schema in EXAMPLES else {})
    described: dict[str, Any] = {"description": "Done", "content": {"application/json": media}}
    if status != 200:
        described["headers"] = {"Location": {"schema": {"type": "string"}, "description": "where it is found"}}
    return {status: described}


def content(media_type: str, description: str, header: str | None = None) -> dict[int | str, dict[str, Any]]:
    """What a route gives that is no JSON."""
    binary = {} if media_type.startswith("text/") else {"format": "binary"}
    described: dict[str, Any] = {
        "description": description,
        "content": {media_type: {"schema": {"type": "string", **binary}}},
    }
    if header is not None:
        described["headers"] = {header: {"schema": {"type": "string"}}}
    return {200: described}


def stream(schema: str, description: str) -> dict[int | str, dict[str, Any]]:
    """What a route gives message by message, as server-sent events, by the name of a message's schema."""
    return {200: {"description": description, "content": {"text/event-stream": {"itemSchema": _reference(schema)}}}}


def body(schema: str) -> dict[str, Any]:
    """What a route takes, by the name of its schema."""
    examples = EXAMPLES.get(f"{schema} examples", {})
    media = {"schema": _reference(schema), **({"examples": examples} if examples else {})}
    return {"requestBody": {"required": True, "content": {"application/json": media}}}


def file_body() -> dict[str, Any]:
    """A route that takes a file as it is."""
    media = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": {"application/octet-stream": media}}}


def describe(app: FastAPI, workloads: list[dict[str, Any]], version: str) -> dict[str, Any]:
    """The whole description."""
    document = get_openapi(
        title="Brimful",
        version=version,
        summary="Jobs that survive: every workload of Brimful as a durable job.",
        description="Errors are problem+json (RFC 9457): `detail` says what was wrong and what to do, and `errors` "
        "names every field at fault. Times are in UTC. On any address but loopback a bearer token is needed.",
        routes=app.routes,
    )
    document["components"] = {
        "schemas": {**SCHEMAS, **job_request_schemas(workloads)},
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    document["security"] = [{}, {"token": []}]
    problem = {"description": "Refused", "content": {MEDIA_TYPE: {"schema": _reference("Problem")}}}
    for path, operations in document["paths"].items():
        for method in set(operations) & set(_METHODS) if path.startswith("/api") else ():
            responses = operations[method]["responses"]
            responses.pop("422", None)
            responses |= {"4XX": problem, "503": problem}
            if "204" in responses:
                responses.pop("200", None)
    return document
