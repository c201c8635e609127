"""The plan of what a form says, made again while someone types."""

import asyncio
from collections.abc import Callable
from typing import Any

from nicegui import context

from ....core.base.errors import BrimfulError
from ....core.base.formatting import format_bytes
from ...errors import FieldProblem, Invalid
from ...service import Service
from ..elements import Tag, table
from ..threads import ask
from ..viewer import message_of
from .form_fields import in_a_form
from .plan_view import plan_view

_PAUSE = 0.4
"""Seconds without typing after which a plan is made."""


class PlanPreview:
    """The place of the plan. At most one is made at a time; what was typed meanwhile is planned next.

    Args:
        request: gives the request that the form says.
        checked: called with what is wrong with its fields.
    """

    def __init__(
        self,
        service: Service,
        request: Callable[[], dict[str, Any]],
        checked: Callable[[tuple[FieldProblem, ...]], Any],
    ) -> None:
        self._service, self._request, self._checked = service, request, checked
        self._client = context.client
        self._wanted = asyncio.Event()
        self._planned: dict[str, Any] | None = None
        with Tag("section", classes="section aside", aria_label="Plan"):
            Tag("h2", "Plan")
            self._status = Tag("p", "", "muted", role="status")
            self._place = Tag("div", classes="stack")

    def request(self) -> None:
        """Asks for a plan of what the form says now."""
        self._wanted.set()

    def fits(self, request: dict[str, Any]) -> bool:
        """Whether the plan of that request was made, whatever its name."""
        return self._planned == _without_name(request)

    async def follow(self) -> None:
        """Makes plans until the page is closed."""
        while True:
            await self._wanted.wait()
            await asyncio.sleep(_PAUSE)
            self._wanted.clear()
            with self._client:
                self._status.set_text("Planning")
                await self._plan()

    async def _plan(self) -> None:
        request = self._request()
        try:
            planned = await ask(self._service.plan, request)
        except Invalid as error:
            self._checked(error.problems)
            self._status.set_text("The plan appears once the options are right.")
            rest = [in_a_form(one.message) for one in error.problems if one.path == "config"]
            self._show(lambda: [Tag("p", message, "message") for message in rest])
        except BrimfulError as refused:
            message = message_of(refused)
            self._checked(())
            self._status.set_text("")
            self._show(lambda: Tag("p", message, "message failed"))
        else:
            self._planned = _without_name(request)
            self._checked(())
            self._status.set_text("" if planned["plan"] else "There is nothing to plan for this command.")
            self._show(lambda: self._fill(planned))

    def _show(self, fill: Callable[[], Any]) -> None:
        self._place.clear()
        with self._place:
            fill()

    def _fill(self, planned: dict[str, Any]) -> None:
        lease = planned["lease"]
        rows = [
            ("Device", lease["device"]),
            ("Device memory", format_bytes(lease["device_bytes"]) if lease["device_bytes"] else "none"),
            ("Host memory", format_bytes(lease["host_bytes"])),
            ("Cores", str(lease["cores"])),
        ]
        table("What the job will lease", ("It will lease", "How much"), rows, "table plain")
        if planned["plan"]:
            plan_view(planned["plan"])(None, None)


def _without_name(request: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name != "job_name"}
