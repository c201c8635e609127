"""What every page has around its content: the way to the others, and where messages appear.

NiceGUI puts all of it into the `main` of the page.
"""

import contextlib
from collections.abc import Iterator

from nicegui import background_tasks, ui

from ...core.base.version import __version__
from .elements import Tag, link
from .notices import place_for_notices
from .preload import preloads
from .viewer import Dashboard, may_change

PAGES = (("Jobs", "/"), ("New job", "/new"), ("Compare", "/compare"), ("Data", "/data"), ("Devices", "/devices"))


@contextlib.contextmanager
def frame(dashboard: Dashboard, title: str, path: str = "", *, plots: bool = False) -> Iterator[None]:
    """A page. What is made inside is its content.

    Args:
        title: of the page, in the window's title too.
        path: of the entry of the navigation that is this page.
        plots: whether it has any.
    """
    background_tasks.create(dashboard.schemas.workloads(), name="read schemas")  # before someone needs them
    ui.page_title(f"{title} · Brimful")
    ui.add_head_html(f'<link rel="stylesheet" href="/dashboard/dashboard.css?{__version__}">{preloads(plots=plots)}')
    link("Skip to content", "#main", "skip")
    with Tag("div", classes="bar"):
        link("Brimful", "/", "brand", aria_label="Brimful, all jobs")
        with Tag("nav", aria_label="Pages"):
            for name, target in PAGES:
                link(name, target, aria_current="page" if target == path else None, data_text=name)
        if not may_change():
            Tag("span", "read only", "chip")
        if dashboard.require_token:
            with Tag("form", method="post", action="/logout"):
                Tag("button", "Log out", "button quiet", type="submit")
    with Tag("div", classes="content", id="main", tabindex="-1"):
        yield
    place_for_notices()
