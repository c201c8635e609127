"""Short messages at the edge of a page, which a screen reader says aloud."""

from weakref import WeakKeyDictionary

from nicegui import context, ui
from nicegui.client import Client

from .elements import Tag

_SECONDS = {"done": 5.0, "error": 15.0}
_PLACES: WeakKeyDictionary[Client, Tag] = WeakKeyDictionary()


def place_for_notices() -> None:
    """Where a page shows its messages."""
    _PLACES[context.client] = Tag("div", classes="notices", role="status", aria_live="polite")


def notify(text: str, kind: str = "done") -> None:
    """Shows a message for some seconds; `kind` is "done" or "error"."""
    place = _PLACES[context.client]
    with place:
        notice = Tag("p", text, f"notice {kind}", role="alert" if kind == "error" else None)
        ui.timer(_SECONDS[kind], lambda: place.remove(notice) if notice in place else None, once=True)
