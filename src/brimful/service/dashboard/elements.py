"""HTML elements, as they are: text is always text, never markup."""

from collections.abc import Callable, Iterable
from typing import Any

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

VALUE = "(event) => emit(event.target.value)"
"""Has an event of an input tell its value."""

_ASKS = 15.0
"""Seconds for which a button asks whether someone is sure."""


class Tag(TextElement):
    """An element of HTML with a text, or with what is made inside `with`."""

    def __init__(self, tag: str, text: str = "", classes: str = "", **attributes: Any) -> None:
        super().__init__(tag=tag, text=text)
        if classes:
            self.classes(classes)
        set_attributes(self, **attributes)


def set_attributes(element: Element, **attributes: Any) -> None:
    """Sets attributes by name; an underscore stands for a hyphen, at the end for nothing, and None removes one."""
    for name, value in attributes.items():
        key = name.rstrip("_").replace("_", "-")
        if key == "value" and element.tag == "input":
            key = "^value"  # the attribute alone: what someone types is theirs
        if value is None or value is False:
            element._props.pop(key, None)
        else:
            element._props[key] = "" if value is True else value
    element.update()


def set_text(element: TextElement, text: str) -> None:
    """Changes a text; one that stays the same is not sent again."""
    if element.text != text:
        element.set_text(text)


def button(text: str, on_click: Callable[..., Any], classes: str = "button", **attributes: Any) -> Tag:
    return Tag("button", text, classes, type="button", **attributes).on("click", on_click, [])


def careful_button(text: str, sure: str, on_sure: Callable[..., Any], label: str, classes: str) -> Tag:
    """A button that does something for good: at the first click it asks, at the second it does it. Once it is left, or
    after some seconds, it asks again."""

    def show(asks: bool) -> None:
        made.set_text(sure if asks else text)
        set_attributes(made, aria_label=f"{sure}: {label}" if asks else label)

    def click() -> Any:
        if made.text == sure:
            show(False)
            return on_sure()
        show(True)
        return ui.timer(_ASKS, lambda: show(False), once=True)

    made = button(text, click, classes, aria_label=label)
    return made.on("blur", lambda: show(False), [])


def link(text: str, href: str, classes: str = "", **attributes: Any) -> Tag:
    return Tag("a", text, classes, href=href, **attributes)


class Number(str):
    """A number as a text, which stands to the right in a table."""


def table(caption: str, header: Iterable[str], rows: Iterable[Iterable[Any]], classes: str = "table") -> Tag:
    """A table of texts; a cell that is a function makes its own content, one that is a number stands to the right. With
    the class `carded`, each row is a card of its own on a narrow screen."""
    header, rows = tuple(header), [tuple(row) for row in rows]
    region = Tag("div", classes="scroll", role="region", aria_label=f"{caption}, table", tabindex="0")
    with region, Tag("table", classes=classes):
        Tag("caption", caption, "unseen")
        with Tag("thead"), Tag("tr"):
            for place, name in enumerate(header):
                right = any(_is_number(row[place]) for row in rows)
                Tag("th", name, "number" if right else "", scope="col")
        with Tag("tbody"):
            for row in rows:
                with Tag("tr"):
                    for place, cell in enumerate(row):
                        _cell(cell, header[place], first=place == 0)
    return region


def _cell(cell: Any, column: str, *, first: bool) -> None:
    tag, attributes = ("th", {"scope": "row"}) if first else ("td", {"data_label": column})
    if callable(cell):
        with Tag(tag, **attributes):
            cell()
    else:
        text = f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)
        Tag(tag, text, "number" if _is_number(cell) else "", **attributes)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float | Number) and not isinstance(cell, bool)
