"""Choosing a file to upload: the browser sends it to the REST API, as any client does."""

from collections.abc import Callable
from typing import Any

from nicegui.element import Element
from nicegui.events import GenericEventArguments

from ...service import Service


class Upload(Element, component="upload.js"):
    """A field for a file, which says how much of it is sent."""


def upload_field(service: Service, uploaded: Callable[[str, str], Any]) -> Upload:
    """A field; `uploaded` is called with "upload:ID" and the file's name."""
    made = Upload()

    def done(event: GenericEventArguments) -> Any:
        id, name = event.args
        return uploaded(f"upload:{id}", str(name))

    made.on("uploaded", done)
    return made
