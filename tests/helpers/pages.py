"""Pages of the dashboard without a browser: the elements that are made, and events that are told to them."""

import asyncio
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from nicegui import core
from nicegui.client import Client
from nicegui.element import Element
from nicegui.page import page
from starlette.requests import Request

from brimful.service.dashboard.notices import place_for_notices
from brimful.service.security.authentication import SCOPES
from brimful.service.security.tokens import Scope

from .asynchronous import run_apart


class Page:
    """A page in the making, open to one who may change things."""

    def __init__(self) -> None:
        scope = {"type": "http", "headers": [], "path": "/", "query_string": b"", SCOPES: (Scope.READ, Scope.WRITE)}
        self.client = Client(page(""), request=Request(scope))

    def elements(self, tag: str = "") -> list[Any]:
        return [one for one in self.client.elements.values() if not tag or one.tag == tag]

    def by_id(self, id: str) -> Any:
        [found] = [one for one in self.elements() if one._props.get("id") == id]
        return found

    def texts(self, tag: str = "") -> list[str]:
        return [text for one in self.elements(tag) if (text := getattr(one, "text", ""))]

    async def tell(self, element: Element, event: str, args: Any = None) -> None:
        """An event of an element, and what is done about it."""
        for listener in [one for one in element._event_listeners.values() if one.type == event]:
            handler: Any = listener.handler
            with element.parent_slot or self.client:
                takes = inspect.signature(handler).parameters
                done = handler(SimpleNamespace(args=args)) if takes else handler()
                if inspect.isawaitable(done):
                    await done


def on_a_page(use: Callable[[Page], Any]) -> None:
    """Makes a page, and has it used."""

    async def make() -> None:
        before, core.loop = core.loop, asyncio.get_running_loop()
        made = Page()
        try:
            with made.client:
                place_for_notices()
                done = use(made)
                if inspect.isawaitable(done):
                    await done
        finally:
            made.client.delete()
            core.loop = before

    run_apart(make())
