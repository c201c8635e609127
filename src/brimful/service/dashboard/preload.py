"""Scripts that a browser is told of at the top of a page, so that it need not find out one from the other."""

import functools
import re

from nicegui import __version__
from nicegui.dependencies import esm_modules
from nicegui.elements import echart

assert echart  # registers the library of the plots

_FILES = f"/_nicegui/{__version__}"
_MARKS = "/dashboard/marks.js"
_EVERY_PAGE = ("vue.esm-browser.prod.js", "quasar.umd.prod.js", "quasar.unimportant.prod.css", "socket.io.min.js")


def preloads(*, plots: bool) -> str:
    """Links to scripts, for the head of a page.

    Args:
        plots: whether it has any.
    """
    urls = (f"{_FILES}/static/dompurify.mjs", *((_MARKS, *_plot_library()) if plots else ()))
    return "".join(f'<link rel="modulepreload" href="{url}">' for url in urls)


def large_files() -> tuple[str, ...]:
    """The files that a first visit waits for."""
    return (*(f"{_FILES}/static/{name}" for name in _EVERY_PAGE), *_plot_library())


@functools.cache
def _plot_library() -> tuple[str, ...]:
    """The script that is imported by the name of the library of the plots, and those that it imports."""
    key, module = next((key, module) for key, module in esm_modules.items() if module.name == "nicegui-echart")
    imported = re.findall(r'from\s*"\./([\w.-]+)"', (module.path / "index.js").read_text())
    return tuple(f"{_FILES}/esm/{key}/{name}" for name in ("index.js", *imported))
