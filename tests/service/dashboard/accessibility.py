"""Whether all can use a page: in both themes, on a phone and on a wide screen."""

from typing import Any

from axe_playwright_python.base import AXE_SCRIPT

from .conftest import until

_AXE = "options => axe.run(document, options).then(result => result.violations)"
_OPTIONS = {"resultTypes": ["violations"], "preload": False}  # its own requests would show NiceGUI's loading bar


def check_accessible(page: Any) -> None:
    """Fails where axe-core finds anything on a page as it is now, in the light theme at 390 px and in the dark one at
    1440 px, or where it is wider than a phone."""
    page.set_viewport_size({"width": 390, "height": 900})
    until(page, "document.documentElement.scrollWidth <= 390")  # plots are drawn anew
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.evaluate(AXE_SCRIPT)
    page.emulate_media(color_scheme="light")
    found = page.evaluate(_AXE, _OPTIONS)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.emulate_media(color_scheme="dark")
    found += page.evaluate(_AXE, _OPTIONS)
    violations = [(one["id"], one["impact"], [node["html"][:150] for node in one["nodes"]][:3]) for one in found]
    assert violations == []
