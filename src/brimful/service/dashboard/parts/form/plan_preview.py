"""The plan of what a form says, made again while someone types."""

import asyncio
from collections.abc import Callable
from typing import Any

from nicegui import context

from .....core.base.errors import BrimfulError
from .....core.base.formatting import format_bytes
from ....errors import FieldProblem, Invalid
from ....service import Service
from ...elements import Tag, table
from ...threads import ask
from ...values import counted
from ...viewer import message_of
from ..job.plan_view import plan_view
from .form_fields import in_a_form

_PAUSE = 0.4
"""Seconds without typing after which a plan is made."""

_ONCE_RIGHT, _NO_PLAN = "The plan appears once the options are right.", "This command makes no plan."

Problems = tuple[FieldProblem, ...]


class PlanPreview:
    """The place of the plan. At most one is made at a time; what was typed meanwhile is planned next.

    Args:
        request: gives the request that the form says.
        plans: whether its command makes a plan.
        checked: called with what is wrong with its fields, and with what would keep it waiting.
        said: called with the plan in a line.
    """

    def __init__(
        self,
        service: Service,
        request: Callable[[], dict[str, Any]],
        plans: Callable[[], bool],
        checked: Callable[[Problems, Problems], Any],
        said: Callable[[str], Any],
    ) -> None:
        self._service, self._request, self._plans = service, request, plans
        self._checked, self._said = checked, said
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
                self._status.set_text("Planning" if self._plans() else "Checking")
                await self._plan()

    async def _plan(self) -> None:
        request = self._request()
        try:
            planned = await ask(self._service.plan, request)
        except Invalid as error:
            self._checked(error.problems, ())
            self._say(_ONCE_RIGHT if self._plans() else f"{_NO_PLAN} What it will lease appears once they are right.")
            rest = [in_a_form(one.message) for one in error.problems if one.path == "config"]
            self._show(lambda: [Tag("p", message, "message") for message in rest])
        except BrimfulError as refused:
            message = message_of(refused)
            self._checked((), ())
            self._say("")
            self._show(lambda: Tag("p", message, "message failed"))
        else:
            self._planned = _without_name(request)
            self._checked((), tuple(FieldProblem(**one) for one in planned["warnings"]))
            self._say("" if planned["plan"] else _NO_PLAN, in_a_line(planned))
            self._show(lambda: self._fill(planned))

    def _say(self, status: str, line: str = "") -> None:
        self._status.set_text(status)
        self._said(line)

    def _show(self, fill: Callable[[], Any]) -> None:
        self._place.clear()
        with self._place:
            fill()

    def _fill(self, planned: dict[str, Any]) -> None:
        lease = planned["lease"]
        rows = [
            ("Device", _device(planned)),
            ("Device memory", format_bytes(lease["device_bytes"]) if lease["device_bytes"] else "none"),
            ("Host memory", format_bytes(lease["host_bytes"])),
            ("Cores", str(lease["cores"])),
        ]
        table("What the job will lease", ("It will lease", "How much"), rows, "table plain")
        if planned["plan"]:
            plan_view(planned["plan"], observed=False)


def in_a_line(planned: dict[str, Any]) -> str:
    """The most memory that a plan predicts, and what the job will lease."""
    plan, lease = planned["plan"], planned["lease"]
    peak = f"Predicted peak {format_bytes(plan['predicted'])}. " if plan else ""
    memory = f"{format_bytes(lease['device_bytes'])} on {_device(planned)}, " if lease["device_bytes"] else ""
    return f"{peak}It will lease {memory}{counted(lease['cores'], 'core')}."


def _device(planned: dict[str, Any]) -> str:
    """That of the plan; without one, a job that names none gets one when it starts."""
    if planned["plan"]:
        return ", ".join(planned["plan"]["devices"])
    named = planned["lease"]["device"]
    return "the first that is free" if named == "auto" else named


def _without_name(request: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name != "job_name"}
