"""Facts in a row, each a name above its value, brought up to date in place."""

from collections.abc import Mapping

from ..elements import Tag, set_text


class Facts:
    """A list of facts; those without a text are hidden.

    Args:
        classes: of the list, beside its own.
    """

    def __init__(self, classes: str = "") -> None:
        self._list = Tag("dl", classes=f"facts {classes}".strip())
        self._shown: dict[str, tuple[Tag, Tag]] = {}

    def show(self, facts: Mapping[str, str]) -> None:
        """Shows these. The text of the one named State is a state of a job."""
        for name, text in facts.items():
            if name not in self._shown:
                with self._list, Tag("div") as group:
                    Tag("dt", name)
                    self._shown[name] = (group, Tag("dd"))
            group, value = self._shown[name]
            if name == "State" and value.text != text:
                value.classes(replace=f"state {text}")
            set_text(value, text)
        for name, (group, _) in self._shown.items():
            group.set_visibility(bool(facts.get(name)))
