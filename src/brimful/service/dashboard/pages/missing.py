"""For addresses that there are not."""

from nicegui import context, ui

from ....core.base.version import __version__
from ..elements import Tag, link


def build() -> None:
    """A page that says so, with the way back."""
    context.client.status_code = 404
    ui.page_title("Nothing here · Brimful")
    ui.add_head_html(f'<link rel="stylesheet" href="/dashboard/dashboard.css?{__version__}">')
    with Tag("div", classes="content", id="main"):
        Tag("h1", "There is nothing at this address")
        with Tag("p"):
            link("All jobs", "/")
