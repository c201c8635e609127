"""What a page says while it cannot be brought up to date."""

from ....core.base.errors import BrimfulError
from ..elements import Tag, set_text
from ..viewer import message_of


class Outage:
    """A line that is hidden while all is well."""

    def __init__(self) -> None:
        self._line = Tag("p", "", "message failed", role="alert")
        self._line.set_visibility(False)

    def show(self, error: BrimfulError) -> None:
        """Says, once, why what is shown may be old."""
        if not self._line.visible:
            reason = message_of(error).removesuffix(". Try again later")
            set_text(self._line, f"This page is out of date, and tries again by itself: {reason}.")
            self._line.set_visibility(True)

    def over(self) -> None:
        """Says no more of it: what is shown is up to date."""
        if self._line.visible:
            self._line.set_visibility(False)
