"""The application: routes over a `Service`, behind the guard."""

import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

from fastapi import Depends, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from ...core.base.version import __version__
from ..security.guard import Guard
from ..security.policy import SecurityPolicy
from ..service import Service
from . import datasets, devices, events, files, jobs, operations, plans, problems, uploads
from .event_feed import EventFeed
from .openapi import describe
from .parameters import check_query
from .responses import json_response

SHORT_PREFIX = "/api/jobs"
"""Another name of the jobs' routes, which the description leaves out."""

_FALLBACK = "/api/{path:path}"
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def create_app(service: Service, policy: SecurityPolicy) -> FastAPI:
    """The application. `app.state.feed.close()` ends the streams of events when the server is about to stop.

    Args:
        service: started; the application neither starts nor stops it.
        policy: who is let in.
    """
    app = FastAPI(
        title="Brimful",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    app.state.service, app.state.feed = service, EventFeed(service)
    checked = [Depends(check_query)]
    for prefix, described in ((jobs.PREFIX, True), (SHORT_PREFIX, False)):
        for router in (jobs.router, events.router, files.router):
            app.include_router(router, prefix=prefix, dependencies=checked, include_in_schema=described)
    for router in (datasets.router, uploads.router, plans.router, devices.router):
        app.include_router(router, dependencies=checked)
    app.add_api_route("/api/openapi.json", _description, include_in_schema=False)
    app.add_api_route(_FALLBACK, _nothing, methods=_METHODS, include_in_schema=False)
    problems.install(app)
    app.add_middleware(Guard, policy=policy, check_token=service.check_token)
    operations.install(app)  # around the guard: what is refused is counted too
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    if app.state.feed.closing:  # it was served before
        app.state.feed = EventFeed(app.state.service)
    yield
    app.state.feed.close()


def _description(request: Request) -> Response:
    """The OpenAPI description, made when it is first asked for: it imports every workload."""
    app: Any = request.app
    if app.openapi_schema is None:
        app.openapi_schema = describe(app, app.state.service.workloads(), __version__)
    return json_response(app.openapi_schema)


def _nothing(request: Request) -> Response:
    """For paths of the API that there are not, so that no page that is served beside it answers for them."""
    own = list(itertools.takewhile(lambda route: getattr(route, "path", "") != _FALLBACK, request.app.routes))
    asked = {method: {**request.scope, "method": method} for method in _METHODS}
    allowed = [method for method, scope in asked.items() if any(route.matches(scope)[0] is Match.FULL for route in own)]
    raise HTTPException(405, headers={"Allow": ", ".join(allowed)}) if allowed else HTTPException(404)
