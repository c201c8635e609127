"""Puts the dashboard beside the REST API: pages, their files, and their security headers."""

from pathlib import Path

from fastapi import FastAPI
from nicegui import client, core, ui
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware

from ..jobs.job import JobFilter
from ..security.policy import SecurityPolicy
from ..service import Service
from . import login
from .headers import PageHeaders, mark_scripts
from .pages import compare, data, devices, job, jobs, missing, new
from .preload import large_files
from .schemas import Schemas
from .signatures import remember_signatures
from .stored_files import OWN_FILES, StoredFiles
from .threads import ask
from .viewer import Dashboard

STATIC = Path(__file__).parent / "static"
_RECONNECT = 10.0
"""Seconds for which the server keeps a page whose connection broke; one that comes back later is loaded again."""

_LEVEL = 6
"""Of the compression of a page."""

_HISTORY = 200
"""Messages that a page which was away for less than that is sent again."""


def mount(app: FastAPI, service: Service, policy: SecurityPolicy) -> None:
    """Adds the pages to an application, once per process, after all its other routes.

    Args:
        app: with `state.feed`, which says when a job has new events.
    """

    async def first_pages() -> list[str]:
        """Those that someone may open first, with the newest job's."""
        newest = await ask(service.jobs, JobFilter(limit=1))
        return ["/", "/devices", *(f"/jobs/{job.id}" for job in newest.jobs)]

    dashboard = Dashboard(service, app.state.feed, Schemas(service), policy.require_token)
    login.install(app, policy)
    mark_scripts(client.templates.env)
    remember_signatures()
    core.app.add_static_files(OWN_FILES.rstrip("/"), STATIC, max_cache_age=0)
    for page in (jobs, job, new, compare, data, devices):
        page.install(dashboard)
    core.sio.eio.transports = ["websocket"]  # a request of another transport passes for one that changes nothing
    core.app.config.socket_io_js_transports = ["websocket"]
    core.app.add_middleware(PageHeaders)
    core.app.add_middleware(GZipMiddleware, compresslevel=_LEVEL)
    app.user_middleware.append(
        Middleware(StoredFiles, prepared=large_files(), pages=first_pages)
    )  # the innermost: within the guard, before the routes
    ui.run_with(
        app,
        root=lambda: missing.build(dashboard),
        title="Brimful",
        favicon=STATIC / "icon.svg",
        dark=None,
        language="en-US",
        tailwind=False,
        binding_refresh_interval=None,
        reconnect_timeout=_RECONNECT,
        message_history_length=_HISTORY,
        gzip_middleware_factory=None,
        show_welcome_message=False,
    )
