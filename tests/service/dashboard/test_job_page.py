"""The page of one job, while it runs and after."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ...helpers.dashboard_server import DashboardServer
from .accessibility import check_accessible
from .conftest import Open, go, until

pytestmark = pytest.mark.browser

POINTS = """name => {
  const plot = document.querySelector(`[data-metric="${name}"] .plot`);
  const step = plot?.getAttribute("aria-label").match(/at step (\\d+)/);
  return step ? Number(step[1]) : 0;
}"""
"""The last step of a curve."""

CHART = "getElement(Number(document.querySelector('.curve-part').id.slice(1))).charts.get('loss')"

MODEL = f"{CHART}.getModel()"
"""What ECharts makes anew where a plot is drawn as a whole."""


def last_step(page: Any, name: str = "loss") -> int:
    return page.evaluate(POINTS, name)


def grown(page: Any, beyond: int) -> int:
    until(page, f"beyond => ({POINTS})('loss') > beyond", arg=beyond)
    return last_step(page)


def test_a_curve_grows_while_the_job_is_paused_resumed_and_cancelled(server: DashboardServer, open_page: Open):
    id = server.submit("a long one", epochs=500, pause=0.05)
    page = open_page(f"/jobs/{id}")
    grown(page, grown(page, 0))
    page.evaluate(f"() => {{ window.modelBefore = {MODEL}; }}")
    page.wait_for_selector("dt:has-text('Stall share')")
    page.wait_for_selector("[aria-label='The plan, table'] tr:has-text('Data tier') td:text-matches('.')")
    page.wait_for_selector(".details:has-text('priority 0, on cpu, 1 core') time >> nth=1")  # created, and started
    page.wait_for_selector("[aria-label=Log]:has-text('epoch')")
    page.wait_for_selector("[data-metric='utilisation, %'] .plot canvas")  # sampled on a CPU too
    page.click("button:has-text('Pause')")
    page.wait_for_selector("dd.state.paused")
    page.click("button:has-text('Resume')")
    page.wait_for_selector("dd.state.running")
    grown(page, last_step(page))
    assert page.evaluate(f"() => window.modelBefore === {MODEL}")  # points are added; nothing else is drawn anew
    assert page.evaluate(f"{CHART}.getOption().animation") is False  # nor does an axis move for a while
    page.locator(".events >> text=paused").first.wait_for()
    page.click("button:has-text('Cancel')")
    page.wait_for_selector("dd.state.cancelled")
    assert server.job(id)["state"] == "cancelled"
    page.click("button:has-text('Retry')")
    page.wait_for_selector("dd.state.running")
    server.api.post(f"/api/jobs/{id}/cancel")


def test_a_page_outlives_its_server_and_misses_nothing(server: DashboardServer, open_page: Open):
    form = open_page("/new?workload=steps&command=train")
    form.fill("#field-job_name", "half typed")
    until(form, "location.search.includes('half')")
    id = server.submit("a survivor", epochs=12, pause=0.05)
    page = open_page(f"/jobs/{id}")
    grown(page, 0)
    server.kill()
    page.wait_for_selector("#popup[aria-hidden=false]")  # it says that the connection is lost
    server.start()
    page.wait_for_selector("dd.state.finished")
    numbers = page.eval_on_selector_all("[data-event]", "items => items.map(item => Number(item.dataset.event))")
    answer = server.api.get(f"/api/jobs/{id}/events", params={"follow": "false"}).text
    events = [json.loads(line.removeprefix("data: ")) for line in answer.splitlines() if line.startswith("data: ")]
    quiet = ("batch_done", "memory_measured", "metric", "sampled")
    shown = [one["id"] for one in events if one.get("kind", "batch_done") not in quiet]
    assert numbers == shown
    stored = server.api.get(f"/api/jobs/{id}/metrics", params={"name": "loss"}).json()["metrics"]["loss"]["step"]
    assert last_step(page) == stored[-1] and len(stored) == len(set(stored))
    until(form, "document.querySelector('#field-job_name')?.value === 'half typed'")


@pytest.mark.parametrize("at_once", [1000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_a_long_curve_is_saved_as_a_whole_and_exact_when_someone_looks_closer(
    server: DashboardServer, open_page: Open, at_once: int
):
    def less(script: str) -> str:
        """The script that saves, with so many rows of one answer."""
        assert "AT_ONCE = 100000;" in script
        return script.replace("AT_ONCE = 100000;", f"AT_ONCE = {at_once};")

    def save(kind: str) -> Path:
        with page.expect_download() as download:
            page.click(f"[aria-label='Save loss as {kind}']")
        return download.value.path()

    rows = at_once + 1000  # more than one answer has, and than are sent at once
    id = server.add_curve("a long curve", rows)
    page = open_page("/login")
    page.route("**/saving.js", lambda route: route.fulfill(response=(asked := route.fetch()), body=less(asked.text())))
    go(page, f"{server.url}/jobs/{id}")
    grown(page, 1000)
    page.wait_for_selector(f".caption:has-text('of {rows:,} points; zoom in for all')")
    saved = save("CSV").read_text().splitlines()[1:]
    assert [line.split(",")[1] for line in saved[:: rows // 10]] == [str(row) for row in range(0, rows, rows // 10)]
    assert len(saved) == rows
    page.wait_for_selector(f"text={rows:,} rows of loss are saved.")
    page.route("**/metrics?*", lambda route: route.fulfill(status=503, json={"detail": "the database is away"}))
    page.click("[aria-label='Save loss as CSV']")
    page.wait_for_selector(".fault:has-text('No file was saved: the database is away')")
    page.unroute("**/metrics?*")
    page.check("text=Log scale")
    drawn = page.evaluate(f"{CHART}.getOption().series.map(one => one.data)")
    assert drawn[0] == [] and all(y == pytest.approx(-math.log10(1 + x), abs=1e-5) for x, y in drawn[1])
    page.uncheck("text=Log scale")
    page.get_by_label("Smoothing").fill("0.5")
    (_, first), (_, second), *_ = raw = page.evaluate(f"{CHART}.getOption().series[0].data")
    smooth = page.evaluate(f"{CHART}.getOption().series[1].data")
    assert len(smooth) == len(raw) == len(drawn[1])
    assert smooth[1][1] == pytest.approx((0.5 * first + second) / 1.5, rel=1e-5)  # both without the bias of the start

    page.get_by_label("Steps from").fill("40")
    page.get_by_label("to", exact=True).fill("80")
    page.get_by_label("to", exact=True).press("Enter")
    until(page, f"() => ({POINTS})('loss') === 80")
    stored = server.api.get(f"/api/jobs/{id}/metrics", params={"name": "loss", "first": 40, "last": 80}).json()
    steps = [str(step) for step in stored["metrics"]["loss"]["step"]]
    assert [row.split(",")[1] for row in save("CSV").read_text().splitlines()[1:]] == steps
    assert save("PNG").read_bytes().startswith(b"\x89PNG")
    page.get_by_label("Steps from").fill("900")
    page.get_by_label("Steps from").press("Enter")
    page.wait_for_selector("text=The first step, 900, is after the last, 80.")
    page.get_by_label("to", exact=True).fill("2000000")
    page.get_by_label("Steps from").fill("1000000")
    page.get_by_label("Steps from").press("Enter")
    page.wait_for_selector("text=No metric has points in these steps.")
    assert last_step(page) in (80, rows - 1)  # what was there stays, of this question or of the one before
    page.click("text=All steps")
    grown(page, 1000)


def test_plots_that_appear_later_are_drawn_and_each_drag_zooms_once(server: DashboardServer, open_page: Open):
    id = server.add_curve("dragged", 1000)
    page = open_page(f"/jobs/{id}", width=500)
    grown(page, 900)
    part = "getElement(Number(document.querySelector('.curve-part').id.slice(1)))"
    added = {f"metric {name}": [[0, 0, 1], [5, 1, 2]] for name in "abcde"}
    page.evaluate(f"([id, added]) => {part}.append(id, added)", [id, added])
    sizes = "() => [...document.querySelectorAll('.plot canvas')].map(one => Math.min(one.width, one.height))"
    until(page, f"() => ({sizes})().length === 4 && ({sizes})().every(size => size > 100)")
    page.set_viewport_size({"width": 1300, "height": 900})
    until(page, f"() => ({sizes})().length === 6 && ({sizes})().every(size => size > 100)")
    painted = "one => one.getContext('2d').getImageData(0, 0, one.width, one.height).data.some(value => value)"
    until(page, f"() => [...document.querySelectorAll('.plot canvas')].every({painted})")
    page.evaluate(f"() => {{ window.zooms = []; {part}.$watch('note', note => note && zooms.push(note)); }}")
    for number in (1, 2):
        box = page.locator("[data-metric=loss] .plot").bounding_box()
        y, left, right = box["y"] + 80, box["x"] + 0.3 * box["width"], box["x"] + 0.7 * box["width"]
        page.mouse.move(left, y)
        page.mouse.down()
        page.mouse.move(right, y, steps=4)
        page.mouse.up()
        until(page, f"number => window.zooms.length >= number && {part}.note === ''", arg=number)
        page.wait_for_timeout(200)
        assert page.evaluate("window.zooms.length") == number
    first, last = (int(page.get_by_label(label, exact=True).input_value()) for label in ("Steps from", "to"))
    assert 100 < last - first < 250  # two fifths of two fifths of 1,000


def test_a_finished_job_shows_its_plan_options_files_and_picture(server: DashboardServer, open_page: Open):
    body = {"job_name": "tiny", "workload": "nets", "command": "train", "budget": "1GB"}
    config = {"count": 40, "steps": 20, "device": "cpu", "seed": 3}
    id = server.api.post("/api/jobs", json={**body, "config": config}).json()["id"]
    server.wait(id, "finished")
    page = open_page(f"/jobs/{id}")
    picture = page.locator("figure img").first
    picture.wait_for()
    until(page, "document.querySelector('figure img').naturalWidth > 1000")
    page.set_viewport_size({"width": 390, "height": 800})  # where it is scrolled, and its panels can be read
    assert picture.bounding_box()["width"] > 900
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size({"width": 1280, "height": 800})
    assert picture.bounding_box()["width"] < 1280
    with page.expect_popup() as popup:
        picture.click()
    until(popup.value, "document.images[0]?.naturalWidth > 100")  # shown, not downloaded
    popup.value.close()
    assert page.locator("section[aria-label=Plan] >> text=Memory by part").count() > 0
    memory = page.locator("[aria-label='Memory by part, table'] tbody tr")
    shown = {row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in memory.all()}
    assert set(shown) == {"input of a batch", "results of a batch", "working memory", "Peak"}
    assert all(observed for _, _, observed in shown.values())
    differing = page.locator("[aria-label='Options that differ from the default, table']")
    differing.wait_for()
    assert differing.locator("tr:has-text('count') >> text=40").count() == 1
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for name in ("Command line", "curl", "Python"):
        page.click(f"[aria-label='Copy as {name}']")
        page.wait_for_selector(f"[aria-label='Copy as {name}']:has-text('Copied')")
        text = page.locator(f"[aria-label='This job as {name}']").inner_text()
        assert page.evaluate("navigator.clipboard.readText()") == text and "40" in text
    files = page.locator("section[aria-label=Files]")
    kinds = files.locator("> div > .scroll tbody tr").all_inner_texts()
    assert kinds[0].endswith("picture") and not any("lock" in kind or "/" in kind for kind in kinds)
    assert files.locator("details a:has-text('lock')").count() == 1
    assert page.locator(".curve-tools").count() == 0  # it reports no metrics
    page.set_viewport_size({"width": 390, "height": 800})
    sizes = files.locator("> div > .scroll")
    assert sizes.evaluate("one => one.scrollWidth <= one.clientWidth")
    check_accessible(page)
    page.click("a:has-text('Copy and change')")
    until(page, "document.querySelector('#field-seed')?.value === '3'")
    assert page.input_value("#field-budget") == "1GB"
