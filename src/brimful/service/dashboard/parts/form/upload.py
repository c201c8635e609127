"""Choosing a file to upload: the browser sends it to the REST API, as any client does."""

from collections.abc import Callable
from typing import Any

from nicegui.element import Element
from nicegui.events import GenericEventArguments

_HINT = "Parquet, CSV, NumPy, safetensors, JSON, text, Python, or a zip of them"


class Upload(Element, component="upload.js"):
    """A field for a file, which says how much of it is sent."""


def upload_field(uploaded: Callable[[str, str], Any], beside: tuple[str, str] | None = None) -> Upload:
    """A field; `uploaded` is called with "upload:ID" and the file's name.

    Args:
        beside: of a field that takes such a file, its id and its label: it then stands below that one's input.
    """
    made = Upload()
    id, label = ("upload", "Upload a file") if beside is None else (f"upload-{beside[0]}", f"Upload {beside[1]}")
    made._props |= {"name": id, "label": label, "hint": _HINT if beside is None else "", "beside": beside is not None}

    def done(event: GenericEventArguments) -> Any:
        id, name = event.args
        return uploaded(f"upload:{id}", str(name))

    made.on("uploaded", done)
    return made
