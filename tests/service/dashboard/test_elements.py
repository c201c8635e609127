"""Parts of pages, made without a browser."""

from typing import Any

import pytest
from nicegui import ui

from brimful.service.dashboard.elements import careful_button

from ...helpers.pages import Page, on_a_page


@pytest.mark.parametrize("leave", ["blur", "wait"])
def test_a_careful_button_asks_anew_once_it_is_left(leave: str, monkeypatch: pytest.MonkeyPatch):
    timers: list[Any] = []
    monkeypatch.setattr(ui, "timer", lambda seconds, then, once: timers.append(then))
    done = []

    async def use(page: Page) -> None:
        made = careful_button("Delete", "Delete for good", lambda: done.append(1), "Delete x", "button")
        await page.tell(made, "click")
        assert made.text == "Delete for good" and made._props["aria-label"] == "Delete for good: Delete x"
        if leave == "blur":
            await page.tell(made, "blur")
        else:
            timers[0]()
        assert (made.text, made._props["aria-label"], done) == ("Delete", "Delete x", [])
        await page.tell(made, "click")
        await page.tell(made, "click")
        assert done == [1]

    on_a_page(use)
