"""Who looks at a page, what they may do, and how the service is asked on their behalf."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from nicegui import context

from ...core.base.errors import BrimfulError
from ..api.event_feed import EventFeed
from ..api.problems import problem_of
from ..errors import Forbidden
from ..security.authentication import SCOPES
from ..security.tokens import Scope
from ..service import Service
from .notices import notify
from .schemas import Schemas
from .threads import ask

_LOG = logging.getLogger("brimful.service.dashboard")

PATIENCE = 60.0
"""Seconds that a page may take to read what it shows, where the database is busy."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What all pages share.

    Attributes:
        feed: says when a job has new events.
        schemas: the options of every command.
        require_token: whether those who look have logged in, so that they can log out.
    """

    service: Service
    feed: EventFeed
    schemas: Schemas
    require_token: bool


def may_change() -> bool:
    """Whether the one who looks at this page may change something; False where their token only reads."""
    return Scope.WRITE in context.client.request.scope.get(SCOPES, ())


async def change(method: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T | None:
    """Calls a method that changes something. Where it is refused, the page says why, and None is returned."""
    try:
        if not may_change():
            raise Forbidden("your token may only read; log in with one that may write")
        return await ask(method, *arguments, **named)
    except BrimfulError as error:
        notify(message_of(error), "error")
        return None


def message_of(error: BrimfulError) -> str:
    """What went wrong, for people; the log has what is the server's own fault."""
    problem = problem_of(error)
    if problem.status >= 500:
        _LOG.error("%s", problem.detail)
    return problem.detail
