"""For those who run the server: whether it works, whether it takes jobs, and its numbers for Prometheus."""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import psutil
from fastapi import APIRouter, FastAPI, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from ...core.base.version import __version__
from ..errors import ServiceError
from ..prometheus import CONTENT_TYPE, Family, Histogram, render
from ..service import Service

router = APIRouter(tags=["operations"])

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def install(app: FastAPI) -> None:
    """Adds the routes, and has every request counted; `app.state.service` is asked."""
    app.state.request_seconds = Histogram(
        "brimful_http_request_seconds",
        "Time to the first byte of a response, by route.",
        _BOUNDS,
        ("method", "route", "status"),
    )
    app.include_router(router)
    app.add_middleware(RequestTimes, histogram=app.state.request_seconds)


@router.get("/healthz")
def health(request: Request) -> Response:
    """Whether the process works. It needs no database, and no token: where it fails, restart the server."""
    state = request.app.state.service.health()
    return JSONResponse(state, 200 if state["ok"] else 503)


@router.get("/readyz")
def ready(request: Request) -> Response:
    """Whether jobs can be submitted now. It needs no token: where it fails, send requests elsewhere, or wait."""
    state = request.app.state.service.ready()
    return JSONResponse(state, 200 if state["ok"] else 503, {} if state["ok"] else {"retry-after": "5"})


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(request: Request) -> Response:
    """Numbers for Prometheus: jobs, leases, queue, requests, memory."""
    state = request.app.state
    families = [*_families(state.service), state.request_seconds.family()]
    return Response(render(families), media_type=CONTENT_TYPE)


def _families(service: Service) -> list[Family]:
    """What the server counts. Where the database is away, what is known without it."""
    process = psutil.Process()
    families = [
        Family("brimful_info", "gauge", "The version.", [("", {"version": __version__}, 1)]),
        Family.single("process_resident_memory_bytes", "gauge", "Memory of the server.", process.memory_info().rss),
        Family.single("process_start_time_seconds", "gauge", "When the server started.", process.create_time()),
    ]
    try:
        counted = service.statistics()
    except ServiceError:
        return [*families, Family.single("brimful_database_up", "gauge", "Whether the database answers.", 0)]
    return [
        *families,
        Family.single("brimful_database_up", "gauge", "Whether the database answers.", 1),
        _labelled("brimful_jobs", "Jobs by state.", "state", counted["jobs"]),
        _labelled("brimful_leased_bytes", "Device memory leased to jobs.", "device", counted["leased_bytes"]),
        _labelled("brimful_capacity_bytes", "Device memory that jobs share.", "device", counted["capacity_bytes"]),
        Family.single("brimful_leased_cores", "gauge", "CPU cores leased to jobs.", counted["leased_cores"]),
        Family.single("brimful_capacity_cores", "gauge", "CPU cores that jobs share.", counted["capacity_cores"]),
        Family.single("brimful_events", "gauge", "Events that are stored.", counted["events"]),
        Family.single("brimful_metric_rows", "gauge", "Values of metrics that are stored.", counted["metric_rows"]),
        Family.single("brimful_queue_seconds", "gauge", "How long the oldest job waits.", counted["queue_seconds"]),
        Family.single("brimful_children", "gauge", "Processes that run jobs.", counted["children"]),
    ]


def _labelled(name: str, help: str, label: str, values: dict[str, float]) -> Family:
    return Family(name, "gauge", help, [("", {label: key}, value) for key, value in values.items()])


class RequestTimes:
    """Counts requests by route, status and time: pure ASGI, so that streams pass as they are."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], histogram: Histogram) -> None:
        self._app, self._histogram = app, histogram

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started = time.perf_counter()

        async def counted_send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "none")  # never the path itself: anyone may invent those
                method = scope["method"] if route != "none" else "any"
                self._histogram.observe(time.perf_counter() - started, method, route, str(message["status"]))
            await send(message)

        return await self._app(scope, receive, counted_send)
