"""The form for a new job."""

from typing import Any

import pytest

from ...helpers.dashboard_server import DashboardServer
from .accessibility import check_accessible
from .conftest import LISTENS, Open, go, until

pytestmark = pytest.mark.browser


def test_the_plan_is_shown_before_the_job_is_submitted(server: DashboardServer, open_page: Open):
    page = open_page("/new?workload=nets&command=train")
    before = server.api.get("/api/jobs").json()["total"]
    assert page.locator("#field-count-help").inner_text().endswith("; at least 1")
    page.fill("#field-job_name", "from the form")
    page.fill("#field-count", "30")
    page.locator("section[aria-label=Plan] tr:has-text('Batch') >> text=30 items").wait_for()
    page.fill("#field-count", "0")
    page.locator("#field-count-fault:has-text('must be at least 1')").wait_for()
    assert page.get_attribute("#field-count", "aria-invalid") == "true"
    page.fill("#field-count", "50")
    page.locator("section[aria-label=Plan] tr:has-text('Batch') >> text=50 items").wait_for()
    assert page.locator("#field-count-fault").inner_text() == ""
    check_accessible(page)
    for text in ("--5", "²"):
        page.fill("#field-priority", text)
        page.locator(f"#field-priority-fault:has-text('priority is {text}; give a whole number')").wait_for()
    page.fill("#field-priority", "-5")
    page.wait_for_selector("#field-priority-fault", state="hidden")
    assert server.api.get("/api/jobs").json()["total"] == before
    page.click("button:has-text('Submit')")
    page.wait_for_selector("h1:has-text('from the form')")
    id = page.url.rpartition("/")[2]
    assert server.job(id)["config"]["count"] == 50 and server.job(id)["priority"] == -5
    server.api.post(f"/api/jobs/{id}/cancel")


def test_what_is_missing_is_named_beside_its_field(server: DashboardServer, open_page: Open):
    page = open_page("/new?workload=gpcm&command=train")
    page.click("button:has-text('Submit')")
    page.wait_for_selector("[role=status]:has-text('once the options are right')")  # the plan, which needs no name
    page.locator("#field-job_name-fault:has-text('missing')").wait_for()
    page.fill("#field-job_name", "no data")
    page.click("button:has-text('Submit')")
    page.locator("#field-dataset-fault:has-text('missing')").wait_for()
    until(page, "document.activeElement.id === 'field-dataset'")
    before = server.api.get("/api/jobs").json()["total"]
    go(page, f"{server.url}/new?workload=gp&command=fit")
    assert page.locator("#field-storage option").all_text_contents() == ["float32", "float16"]
    page.locator("#field-synthetic").wait_for()  # it is not required, and was folded until the plan named it
    page.fill("#field-job_name", "no data either")
    page.click("button:has-text('Submit')")
    page.locator("#field-data-fault:has-text('give either data, a long table, or synthetic, a number')").wait_for()
    assert server.api.get("/api/jobs").json()["total"] == before


def test_a_file_is_uploaded_and_taken(server: DashboardServer, open_page: Open):
    page = open_page("/new?workload=gp&command=predict", width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("input[type=file]").count() == 1  # for what it reads: neither for the model nor for the output
    content = b"x\n0.1\n0.2\n"
    for name in ("points.csv", "others.csv"):  # the second takes the place of the first
        page.set_input_files("#upload-at", {"name": name, "mimeType": "text/csv", "buffer": content})
        page.wait_for_selector(f"#upload-at-note:has-text('{name} is uploaded')")
        id = server.api.get("/api/uploads").json()["uploads"][0]["id"]
        until(page, "value => document.querySelector('#field-at').value === value", arg=f"upload:{id}")
    assert page.input_value("#field-directory") == ""
    page.set_input_files("#upload-at", {"name": "points.exe", "mimeType": "text/plain", "buffer": content})
    page.locator("#upload-at-note.fault").wait_for()
    assert page.input_value("#field-at") == f"upload:{id}"


def tab_to(page: Any, what: str, wanted: str) -> None:
    """Goes on by Tab alone until what has the focus is the one."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(what) == wanted:
            return
    raise AssertionError(f"no Tab leads to {wanted}")


def press(page: Any, name: str, key: str) -> None:
    """Goes to a control of that name by Tab alone, from the top of the page, and presses a key."""
    page.evaluate("document.activeElement.blur()")
    tab_to(page, "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent", name)
    page.keyboard.press(key)


def test_with_the_keyboard_alone(server: DashboardServer, open_page: Open):
    page = open_page("/")
    page.wait_for_selector("nav[aria-label=Pages]")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    tab_to(page, "document.activeElement.textContent", "New job")
    page.keyboard.press("Enter")
    page.wait_for_selector("#what")
    until(page, LISTENS)
    page.focus("#what")
    page.keyboard.type("steps wait")
    page.wait_for_selector("#field-seconds", state="attached")
    page.keyboard.press("Tab")
    page.keyboard.type("typed alone")
    tab_to(page, "document.activeElement.tagName", "SUMMARY")
    page.keyboard.press("Enter")
    tab_to(page, "document.activeElement.id", "field-seconds")
    page.keyboard.type("60")
    page.keyboard.press("Enter")  # before the last letters were told
    page.wait_for_selector("h1:has-text('typed alone')")
    id = page.url.rpartition("/")[2]
    assert server.job(id)["config"]["seconds"] == 60
    server.wait(id, "running")
    page.wait_for_selector("dd.state.running")
    press(page, "Pause", "Enter")
    page.wait_for_selector("dd.state.paused")
    press(page, "Cancel", "Enter")
    page.wait_for_selector("dd.state.cancelled")
    go(page, f"{server.url}/?text=typed alone")
    press(page, "Select typed alone", "Space")
    page.wait_for_selector("text=1 selected")
