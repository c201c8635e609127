"""What a page says while it cannot be brought up to date."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ....core.base.errors import BrimfulError
from ..elements import Tag, set_text
from ..viewer import message_of

T = TypeVar("T")

_LONG = 8.0
"""Seconds after which it is said that there is no answer."""


class Outage:
    """A line that is hidden while all is well."""

    def __init__(self) -> None:
        self._line = Tag("p", "", "message failed", role="alert")
        self._line.set_visibility(False)

    async def during(self, reading: Coroutine[Any, Any, T]) -> T | None:
        """What is read; None where that fails. While it takes long, and after it has failed, the page says so."""
        try:
            return await self.waited(reading)
        except BrimfulError as error:
            self.show(error)
            return None

    async def waited(self, reading: Coroutine[Any, Any, T]) -> T:
        """What is read, or its error. While it takes long the page says so."""
        task = asyncio.ensure_future(reading)
        try:
            await asyncio.wait({task}, timeout=_LONG)
            if not task.done():
                self._say("the database does not answer")
            found = await task
        finally:
            task.cancel()
        self.over()
        return found

    def show(self, error: BrimfulError) -> None:
        """Says, once, why what is shown may be old."""
        if not self._line.visible:
            self._say(message_of(error).removesuffix(". Try again later"))

    def over(self) -> None:
        """Says no more of it: what is shown is up to date."""
        if self._line.visible:
            self._line.set_visibility(False)

    def _say(self, reason: str) -> None:
        set_text(self._line, f"This page is out of date, and tries again by itself: {reason}.")
        self._line.set_visibility(True)
