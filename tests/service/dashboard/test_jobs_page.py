"""The list of jobs."""

import json
from urllib.parse import quote

import pytest

from ...helpers.dashboard_server import DashboardServer
from .conftest import Open, go, until

pytestmark = pytest.mark.browser


def test_jobs_are_searched_sorted_selected_and_cancelled(server: DashboardServer, open_page: Open):
    names = ["apple one", "apple two", "pear"]
    ids = [server.submit(name, "wait", seconds=60) for name in names]
    page = open_page("/?text=apple")
    page.wait_for_selector("text=2 jobs")
    until(page, "performance.getEntriesByType('resource').some(one => one.name.includes('/esm/'))")  # plots
    assert page.locator("tbody tr").count() == 2
    page.click("button.sort:has-text('Name')")
    page.wait_for_selector("th[aria-sort=ascending] >> text=Name")
    assert page.locator("tbody th a").first.inner_text() == "apple one"
    page.click("button.sort:has-text('Name')")
    page.wait_for_selector("th[aria-sort=descending] >> text=Name")
    assert page.locator("tbody th a").first.inner_text() == "apple two"
    assert "sort=-name" in page.url
    page.check("[aria-label='Select all jobs on this page']")
    page.click(".selection button:has-text('Cancel')")
    for id in ids[:2]:
        server.wait(id, "cancelled")
    page.wait_for_selector("tbody tr .state.cancelled >> nth=1")  # the list shows it by itself
    page.fill("#search", "pear")
    page.wait_for_selector("tbody th a:has-text('pear')")
    assert server.job(ids[2])["state"] in ("queued", "running")
    page.check("input[name=state][value=finished]", force=True)
    page.wait_for_selector("text=No job matches.")
    server.api.post(f"/api/jobs/{ids[2]}/cancel")


def test_thousands_of_jobs_are_paged_and_what_is_selected_stays(server: DashboardServer, open_page: Open):
    server.add_finished("row", 5000)
    page = open_page("/?text=row")
    page.wait_for_selector("text=1 to 25, page 1 of 200")
    page.locator("tbody input[type=checkbox]").first.check()
    page.click("button:has-text('Next')")
    page.wait_for_selector("text=26 to 50, page 2 of 200")
    page.locator("tbody input[type=checkbox]").first.check()
    page.wait_for_selector("text=2 selected")
    page.check("[aria-label='Select all jobs on this page']")
    page.wait_for_selector("text=26 selected; 8 at most can be compared")
    assert page.locator(".selection button:has-text('Compare')").is_disabled()
    page.click("button:has-text('Previous')")
    page.wait_for_selector("text=1 to 25, page 1 of 200")
    assert page.locator("tbody input:checked").count() == 1
    page.click(".selection button:has-text('Clear')")
    until(page, "document.querySelectorAll('tbody input:checked').length === 0")
    page.set_viewport_size({"width": 390, "height": 900})  # where there are no headings
    page.get_by_label("Sort by").select_option("name")
    page.wait_for_selector("tbody th a >> text=/^row$/")
    page.get_by_label("Select all", exact=True).check()
    page.wait_for_selector("text=25 selected")


HOSTILE = "<img src=x onerror=alert(1)>`${alert(2)}`{{alert(3)}}"


def test_names_with_markup_are_text_on_every_page(server: DashboardServer, open_page: Open):
    name = f"{HOSTILE}</script><script>alert(4)</script>"
    metric, file = f"metric {HOSTILE}", f"{HOSTILE} file.csv"
    copied, curve = server.add_finished(f"{name} a"), server.add_curve(name, 3, metric)
    server.add_events(curve, "warned", {"message": f"event {name}"})
    server.add_events(curve, f"kind {HOSTILE}", {f"key {HOSTILE}": f"value {HOSTILE}"})
    folder = server.state / "jobs" / curve
    (folder / "run").mkdir(parents=True)
    (folder / "run" / f"{HOSTILE}.png").write_bytes(b"")
    (folder / "run" / "metrics.json").write_text(json.dumps({f"result {HOSTILE}": f"is {HOSTILE}"}))
    (folder / "log.txt").write_text(f"log {name}")
    upload = server.upload(file, "a\n1\n")
    config = {"dataset": "none", "source": f"upload:{upload}"}
    body = {"job_name": name, "workload": "data", "command": "import", "config": config}
    assert server.api.post("/api/jobs", json=body).status_code == 201
    waiting = server.submit(name, "wait", budget="7GB", seconds=60)
    server.wait(waiting, "running")
    shown: list[str] = []
    page = open_page("/login")
    page.on("dialog", lambda dialog: (shown.append(dialog.message), dialog.dismiss()))
    pages = {
        "/?text=onerror": (name,),
        f"/jobs/{curve}": (name, metric, f"event {name}", f"value {HOSTILE}", f"result {HOSTILE}", f"log {name}"),
        f"/compare?jobs={copied},{curve}": (name, metric),
        "/data": (name, file),
        "/devices": (name,),
        f"/new?workload=gp&command=fit&given={quote(json.dumps({'config.id': HOSTILE}))}": (),
    }
    for path, texts in pages.items():
        go(page, server.url + path)
        for text in texts:
            page.get_by_text(text).first.wait_for(state="attached")
        assert page.locator("img[src=x]").count() == 0, path
    assert page.input_value("#field-id") == HOSTILE
    page.goto(f"{server.url}/new?copy={copied}")
    until(page, "name => document.querySelector('#field-job_name')?.value.startsWith(name)", arg=name)
    assert shown == [] and page.locator("img[src=x]").count() == 0
    server.api.post(f"/api/jobs/{waiting}/cancel")
