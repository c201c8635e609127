"""For addresses that there are not."""

from nicegui import context

from ..elements import Tag, link
from ..shell import frame
from ..viewer import Dashboard


def build(dashboard: Dashboard) -> None:
    """A page that says so, with the ways to others."""
    context.client.status_code = 404
    with frame(dashboard, "Nothing here"):
        Tag("h1", "There is nothing at this address")
        with Tag("p"):
            link("All jobs", "/")
