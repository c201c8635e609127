"""What someone sees where there are no jobs yet: an example of each workload, one click away."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from ...service import Service
from ..elements import Tag, button, link
from ..examples import EXAMPLES, Example
from ..viewer import change, may_change


async def first_visit(
    service: Service, title: str = "No jobs yet", starting: Callable[[bool], Any] = lambda begun: None
) -> None:
    """Cards of examples; each ends within a minute on two cores.

    Args:
        starting: called with True when someone starts one, and with False where it was refused.
    """
    with Tag("div"):
        Tag("h1", title)
        Tag("p", "Start an example to see what a job looks like. Each ends within a minute on two cores.", "lead")
    with Tag("ul", classes="cards"):
        for example in EXAMPLES:
            with Tag("li", classes="card"):
                Tag("h2", example.title)
                Tag("p", example.text)
                with Tag("div", classes="card-foot"):
                    Tag("code", f"{example.workload} {example.command}", "muted")
                    if may_change():
                        _start_button(service, example, starting)
    with Tag("p", classes="muted"):
        Tag("span", "Or write your own: ")
        link("new job", "/new")
        Tag("span", ". From a terminal: ")
        Tag("code", "brimful jobs submit gp fit --synthetic 1000")


def _start_button(service: Service, example: Example, starting: Callable[[bool], Any]) -> None:
    async def start() -> None:
        starting(True)
        id = await change(example.start, service)
        if id is None:
            starting(False)
        else:
            ui.navigate.to(f"/jobs/{id}")

    button("Start", start, aria_label=f"Start the example {example.title}")
