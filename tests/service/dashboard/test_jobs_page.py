"""The list of jobs."""

import pytest

from ...helpers.dashboard_server import DashboardServer
from .conftest import Open

pytestmark = pytest.mark.browser


def test_jobs_are_searched_sorted_selected_and_cancelled(server: DashboardServer, open_page: Open):
    names = ["apple one", "apple two", "pear"]
    ids = [server.submit(name, "wait", seconds=60) for name in names]
    page = open_page("/?text=apple")
    page.wait_for_selector("text=2 jobs")
    assert page.locator("tbody tr").count() == 2
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


def test_a_name_with_markup_is_text(server: DashboardServer, open_page: Open):
    name = "<img src=x onerror=alert(1)>`${alert(2)}`{{alert(3)}}</script><script>alert(4)</script>"
    id = server.submit(name, "wait")
    server.wait(id)
    for path in ("/?text=onerror", f"/jobs/{id}"):
        page = open_page(path)
        shown: list[str] = []
        page.on("dialog", lambda dialog, shown=shown: (shown.append(dialog.message), dialog.dismiss()))
        page.reload()
        page.wait_for_selector("nav[aria-label=Pages]")
        if "/new" in path:
            page.wait_for_function(
                "name => document.querySelector('#field-job_name')?.value.startsWith(name)", arg=name
            )
        else:
            page.get_by_text(name, exact=True).first.wait_for()
        assert shown == [] and page.locator("img[src=x]").count() == 0
        page.context.close()
