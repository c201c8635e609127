"""`brimful serve`: the server's options on the command line."""

from typing import Any

from ..core.base.errors import ConfigError
from ..core.base.extras import require
from ..core.declare.config import build, describe, flag
from ..service.options import ServeOptions, start_database
from .commands import made_from
from .output import UsageProblem


def serve_command(help: str) -> Any:
    return made_from("serve", help, describe(ServeOptions), _serve)


def _serve(**options: Any) -> None:
    for extra, module in (("serve", "fastapi"), ("serve", "uvicorn"), ("serve", "dbos"), ("postgres", "psycopg")):
        require(extra, module)
    try:
        chosen = build(ServeOptions, options, flag)
    except ConfigError as error:
        raise UsageProblem(str(error)) from error
    start_database(chosen)
    from ..service.server import serve

    serve(chosen)
