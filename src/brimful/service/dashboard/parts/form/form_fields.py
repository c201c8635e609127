"""Fields of a form, made from a JSON schema: native inputs with their help, their range and what is wrong with them."""

import json
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from nicegui import ui

from .....core.declare.config import NONE
from ....errors import FieldProblem
from ...elements import VALUE, Tag, set_attributes
from ...values import exact

_OPTION = re.compile(r"(?<!\S)--([a-z][a-z0-9_-]*)(?: [A-Z]+(?:\|[A-Z]+)*\b)?")  # with what stands for its value
_CHECKED = "(event) => emit(event.target.checked ? 'true' : 'false')"


WHAT_IS_TYPED = """(event) => emit(Object.fromEntries([...event.target.querySelectorAll("[name]")]
  .map((one) => [one.id, one.type === "checkbox" ? String(one.checked) : one.value])))"""
"""Has an event of a form tell what its inputs say at that moment, by their ids: what was typed last may not have been
told yet."""


class Field:
    """One input. What is typed is passed on as text; the declaration of the option converts and checks it.

    Attributes:
        id: of the input in the page.
        place: where all of it is.
    """

    def __init__(
        self,
        path: str,
        name: str,
        schema: dict[str, Any],
        value: str,
        changed: Callable[[str, str], Any],
        *,
        required: bool,
    ) -> None:
        self.path = path
        self.id = f"field-{name}"
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        boolean = "boolean" in kinds and "null" not in kinds
        with Tag("div", classes="field tick" if boolean else "field") as self.place:
            if boolean:
                self._input = self._tick(value == "true")
                with Tag("div"):
                    self._texts(name, schema, required)
            else:
                Tag("label", _label(name, required), for_=self.id)
                choices = [(str(one), str(one)) for one in schema.get("enum", ()) if one is not None]
                choices = [("true", "yes"), ("false", "no")] if "boolean" in kinds else choices
                self._input = self._choice(choices, schema, value) if choices else self._entry(kinds, schema, value)
                self._texts(None, schema, required)
        described = f"{self.id}-help {self.id}-fault"
        set_attributes(self._input, id=self.id, aria_describedby=described, required=required, name=name)
        event, tell = ("change", _CHECKED) if boolean else ("input", VALUE)
        self._input.on(event, lambda event: changed(path, str(event.args)), js_handler=tell, throttle=0.15)

    def show_fault(self, text: str) -> None:
        """What is wrong with it; nothing where it is right."""
        if self._fault.text != text:
            self._fault.set_text(text)
            set_attributes(self._input, aria_invalid="true" if text else None)

    def set(self, value: str) -> None:
        ui.run_javascript(f"document.getElementById({json.dumps(self.id)}).value = {json.dumps(value)}")

    def unfold(self) -> None:
        """Opens what it is in."""
        ui.run_javascript(
            f"document.getElementById({json.dumps(self.id)}).closest('details')?.setAttribute('open', '')"
        )

    def focus(self) -> None:
        """Puts the cursor there."""
        self.unfold()
        ui.run_javascript(f"document.getElementById({json.dumps(self.id)}).focus()")

    def _texts(self, name: str | None, schema: dict[str, Any], required: bool) -> None:
        if name is not None:
            Tag("label", _label(name, required), for_=self.id)
        Tag("span", _help(schema), "help", id=f"{self.id}-help")
        self._fault = Tag("span", "", "fault", id=f"{self.id}-fault", role="alert")

    def _tick(self, value: bool) -> Tag:
        return Tag("input", type="checkbox", checked=value)

    def _choice(self, choices: Sequence[tuple[str, str]], schema: dict[str, Any], value: str) -> Tag:
        with Tag("select", classes="input") as select:
            if schema.get("default") is None:
                Tag("option", "by default", value="", selected=not value)
            chosen = value or str(schema.get("default"))
            for one, label in choices:
                Tag("option", label, value=one, selected=one == chosen)
        return select

    def _entry(self, kinds: list[str], schema: dict[str, Any], value: str) -> Tag:
        default = schema.get("default")
        attributes: dict[str, Any] = {"placeholder": "" if default is None else exact(default).replace(",", "")}
        if "integer" in kinds or "number" in kinds:
            attributes |= {"inputmode": "numeric" if "integer" in kinds else "decimal"}
        if "suggest" in schema:
            attributes |= {"list": schema["suggest"]}
        return Tag("input", classes="input", type="text", value=value or None, autocomplete="off", **attributes)


def suggestions(id: str, choices: Sequence[tuple[str, str]]) -> Tag:
    """What fields suggest: values, and what each is."""
    with Tag("datalist", id=id) as made:
        for value, label in choices:
            Tag("option", label, value=value)
    return made


def in_a_form(message: str) -> str:
    """A message with the names that options have in a form, in place of the command line's."""
    return _OPTION.sub(lambda found: found[1].replace("-", " ").replace("_", " "), message)


def by_field(problem: FieldProblem, fields: Collection[str]) -> list[tuple[str, str]]:
    """(field, message) of each field that a problem is about: the one that it names, or those whose options its
    sentence names."""
    path, message = problem.path.replace("webhook.url", "webhook"), in_a_form(problem.message)
    if path in fields:
        return [(path, message)]
    named = [f"config.{name.replace('-', '_')}" for name in _OPTION.findall(problem.message)]
    return [(name, message) for name in dict.fromkeys(named) if name in fields]


def label_of(name: str) -> str:
    """The name of an option, in a form."""
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


def _label(name: str, required: bool) -> str:
    return label_of(name) + (" (required)" if required else "")


def _help(schema: dict[str, Any]) -> str:
    limits = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    said = [f"{word} {exact(schema[key])}" for key, word in limits.items() if key in schema]
    if schema.get("default") is not None and "null" in schema["type"]:
        said.append(f"or {NONE}")
    parts = [schema.get("description", ""), ", ".join(said)]
    return "; ".join(part for part in parts if part)
