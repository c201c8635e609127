"""Comparing runs, data, devices, narrow screens, and what a screen reader needs."""

import pytest

from ...helpers.dashboard_server import CARD, DashboardServer
from ...helpers.driver_library import GB
from .accessibility import check_accessible
from .conftest import Open, go, until

pytestmark = pytest.mark.browser


def test_two_runs_are_compared(server: DashboardServer, open_page: Open):
    runs = {seed: {"config": {"seed": seed}, "summary": {"weights": f"{seed}a", "steps": 8}} for seed in (1, 2)}
    two = [server.add_curve(f"run with seed {seed}", 8, **run) for seed, run in runs.items()]
    page = open_page("/?text=run with seed")
    page.check("[aria-label='Select run with seed 1']")
    page.check("[aria-label='Select run with seed 2']")
    check_accessible(page)
    page.click("button:has-text('Compare')")
    label = page.locator("[data-metric=loss] .plot")
    label.wait_for()
    text = label.get_attribute("aria-label")
    assert "run with seed 1: " in text and "run with seed 2: " in text
    differing = page.locator("section[aria-label='Options that differ'] tbody tr")
    assert differing.all_inner_texts() == ["seed\t2\t1"] or differing.all_inner_texts() == ["seed\t1\t2"]
    assert page.locator("section[aria-label=Results] >> text=weights").count() == 1
    rows = page.locator("section[aria-label=Results] tbody tr").all_inner_texts()
    assert {"loss, last\t0.125\t0.125", "loss, lowest\t0.125\t0.125"} <= set(rows)
    page.check("text=By time")
    check_accessible(page)
    library = "import('/dashboard/marks.js')"
    marks = f"([of, ...range]) => {library}.then(all => all[of](...range)).then(of => of.marks.map(of.text))"
    assert page.evaluate(marks, ["timeMarks", 250]) == ["0:00", "1:00", "2:00", "3:00", "4:00"]
    assert page.evaluate(marks, ["timeMarks", 9000]) == ["0:00", "0:30", "1:00", "1:30", "2:00", "2:30"]
    assert page.evaluate(marks, ["evenMarks", 2.48, 2.66]) == ["2.50", "2.55", "2.60", "2.65"]
    assert page.evaluate(marks, ["evenMarks", 0, 2350]) == ["0", "500", "1,000", "1,500", "2,000"]
    page.fill("#search-runs", "seed 2")
    choice = page.locator("section[aria-label='Runs to compare'] tbody tr")
    until(page, "document.querySelectorAll(\"section[aria-label='Runs to compare'] tbody tr\").length === 1")
    assert choice.locator("a >> text=Leave out").count() == 1
    page.fill("#search-runs", "")
    running = server.submit("run that goes on", epochs=200, pause=0.02)
    many = ",".join([running, *two, *(server.add_finished(f"another {number}") for number in range(6))])
    go(page, f"{server.url}/compare?jobs={many}")
    page.wait_for_selector("text=8 runs can be compared; these are the first of 9.")
    label = "document.querySelector('[data-metric=loss] .plot')?.getAttribute('aria-label')"
    grows = f"() => Number({label}?.match(/goes on: \\S+ at step (\\d+)/)?.[1] ?? 0)"
    until(page, f"() => ({grows})() > 0")
    before = page.evaluate(grows)
    until(page, f"before => ({grows})() > before", arg=before)
    server.api.post(f"/api/jobs/{running}/cancel")
    page.wait_for_selector("section[aria-label=Results] >> text=cancelled")


def test_a_file_becomes_a_dataset(server: DashboardServer, open_page: Open):
    page = open_page("/data")
    rows = "a,b\n" + "".join(f"{one},{one * 2}.5\n" for one in range(20))
    page.set_input_files("#upload", {"name": "numbers.csv", "mimeType": "text/csv", "buffer": rows.encode()})
    page.wait_for_selector("text=numbers.csv will be imported")
    page.click("section[aria-label=Import] button:has-text('Import')")
    page.wait_for_selector("section[aria-label=Datasets] th:has-text('numbers')", timeout=60_000)
    form = open_page("/new?workload=data&command=verify")
    form.wait_for_selector("#datasets-choices option[value=numbers]", state="attached")
    assert form.get_attribute("#field-name", "list") == "datasets-choices"
    page.click("[aria-label='Verify numbers']")
    page.wait_for_selector("tr:has-text('verify numbers') >> text=20 rows, no faults", timeout=60_000)
    check_accessible(page)
    page.click("[aria-label='Delete numbers']")
    page.wait_for_selector("[aria-label='Delete for good: Delete numbers']")  # it waits for the second click meanwhile
    page.set_input_files("#upload", {"name": "more.csv", "mimeType": "text/csv", "buffer": rows.encode()})
    until(page, "document.querySelector('#dataset-name').value === 'more'")
    page.click("[aria-label='Choose numbers.csv to import']")
    until(page, "document.activeElement.id === 'dataset-name'")
    page.wait_for_selector("text=numbers.csv will be imported")
    page.wait_for_selector("[aria-label='Delete numbers']")  # it was left
    assert page.locator("text=Locate from it").count() == 0  # there are no recordings in it
    assert page.locator("section[aria-label='Imports and checks'] progress").count() == 0
    page.click("[aria-label='Delete numbers']")
    page.click("[aria-label='Delete for good: Delete numbers']")
    page.wait_for_selector("text=numbers is deleted")


def test_devices_show_leases_who_waits_and_a_gpu_that_appears(server: DashboardServer, open_page: Open):
    body = {"workload": "steps", "command": "wait", "cores": 1, "config": {"seconds": 60}}
    first = server.api.post("/api/jobs", json={**body, "job_name": "takes most", "budget": "6GB"}).json()["id"]
    server.wait(first, "running")
    second = server.api.post("/api/jobs", json={**body, "job_name": "must wait", "budget": "6GB"}).json()["id"]
    page = open_page("/?text=must wait")
    page.wait_for_selector(".why:has-text('waits for')")
    go(page, f"{server.url}/devices")
    page.wait_for_selector("section[aria-label='Device cpu'] >> text=takes most")
    page.wait_for_selector("section[aria-label=Queue] tr:has-text('must wait')")
    place = "document.querySelector('[aria-label=\"Device cpu\"] .plot').parentElement"
    plot = f"getElement(Number({place}.id.slice(1))).chart"
    drawn = f"{plot}.getOption().series.map(one => one.name)"
    until(page, f"() => ({drawn}).includes('takes most')")  # its memory over time
    link = page.locator("section[aria-label='Device cpu'] a:has-text('takes most')")
    link.focus()
    looks = f"{plot}.getOption().series.at(-1).data.length"
    before = page.evaluate(looks)
    until(page, f"before => {looks} > before", arg=before)
    assert link.evaluate("link => link === document.activeElement")  # the page is brought up to date around it
    check_accessible(page)
    page.set_viewport_size({"width": 390, "height": 900})
    page.wait_for_selector("[aria-label='Leases of cpu, table'] th:has-text('In use')")
    for id in (second, first):
        server.api.post(f"/api/jobs/{id}/cancel")
    page.wait_for_selector("section[aria-label=Queue] >> text=No job waits.")
    (server.state / CARD).touch()
    device = page.locator("section[aria-label='Device cuda:0']")
    device.locator("text=A card").wait_for()
    facts = device.locator("dl > div").all_inner_texts()
    assert {"Memory\n80.00 GB", "Utilisation\n50%", "Power\n300 W"} <= set(facts)
    (server.state / CARD).unlink()
    device.wait_for(state="detached")


def test_use_of_a_gpu_is_shown_with_its_utilisation_and_power(server: DashboardServer, open_page: Open):
    id = server.add_finished("ran on a card")
    look = {"used": 2 * GB, "process": 3 * GB}
    server.add_events(id, "sampled", *({**look, "utilisation": share, "watts": 700 * share} for share in (0.2, 0.9)))
    page = open_page(f"/jobs/{id}")
    page.wait_for_selector("dt:has-text('Mean power') + dd:has-text('385 W')")
    page.wait_for_selector("dt:has-text('Mean utilisation') + dd:has-text('55%')")
    for name, last in (("memory, MB", "2000"), ("utilisation, %", "90"), ("power, W", "630")):
        label = page.locator(f"[data-metric='{name}'] .plot").get_attribute("aria-label")
        assert f": {last} at step" in (label or "")


def test_an_address_that_there_is_not(server: DashboardServer, open_page: Open):
    page = open_page("/jobs/nothing")
    page.wait_for_selector("text=There is nothing at this address")
    check_accessible(page)
    assert server.api.get("/nowhere", headers={"accept": "text/html"}).status_code == 404
    assert server.api.get("/api/nowhere").headers["content-type"] == "application/problem+json"
