"""The dashboard under load: a job with a million metric rows opened, followed live, with other tabs and sockets open.

Needs Chromium. It starts a server of its own on an embedded database. `--only hour --minutes 70` watches its memory for
an hour after a warm-up; `--only open`, `--only jobs`, `--only examples` and `--only traffic` do the other parts.
"""

import argparse
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
from playwright.sync_api import Browser, Page, sync_playwright

from brimful.data.database.connection import Database
from brimful.service.jobs.job import JobRequest
from brimful.service.store import Store
from brimful.service.store.metric_ranges import ADD, LEVELS
from page_clients import PageClient

LABEL = "(document.querySelector('[data-metric=loss] .plot')?.getAttribute('aria-label') ?? '')"
DRAWN = f"() => /at step \\d+/.test({LABEL})"
ANSWERED = "() => performance.getEntriesByType('navigation')[0].responseStart"
STEP = f"() => Number({LABEL}.match(/at step (\\d+)/)?.[1] ?? -1)"

CLIENTS = 50

BROWSERS = Path("/usr/bin/chromium"), Path("/usr/bin/chromium-headless-shell")
"""Debian's builds, the one with windows first: it is what people have."""

FLAGS = ("--no-sandbox", "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup")
"""The window of every new session would prepare its own menus while the first page is opened in it: a second of the
processor that someone's window has spent long before."""


def fill(store: Store, rows: int) -> str:
    """A job with a long curve; its id."""
    job = store.jobs.add(JobRequest(name="a million rows", workload="nets"), None).id
    block = 50_000

    def add(first: int) -> Any:
        steps = list(range(first, first + block))
        values = [1 / (1 + step / 1e5) + (step * 7919 % 1000) / 1e4 for step in steps]
        times = [1.7e9 + step / 100 for step in steps]
        given = {"job": job, "names": ["loss"] * block, "steps": steps, "times": times, "values": values}
        return lambda connection: connection.execute(ADD.encode(), {**given, "levels": list(LEVELS)})

    for first in range(0, rows, block):
        store.pool.call(add(first))
    query = "UPDATE job SET state = 'paused', events = 0 WHERE id = %s"
    store.pool.call(lambda connection: connection.execute(query, (job,)))
    return job


JOBS = """
    INSERT INTO job (id, name, workload, command, config, priority, state, created, queued)
    SELECT 'job-' || number, 'run ' || number * 7919 %% 100003 || ' of a sweep', 'nets', 'train', '{}', 0,
        (ARRAY['finished', 'failed', 'cancelled', 'paused'])[1 + number %% 4], 1.7e9 + number, 1.7e9 + number
    FROM generate_series(1, %s) AS number
"""


def fill_jobs(store: Store, count: int) -> None:
    """So many jobs that have ended, or are paused."""
    store.pool.call(lambda connection: connection.execute(JOBS.encode(), (count,)))


class Traffic:
    """What a page receives: messages of its websocket, before they were compressed, and answers to its requests."""

    def __init__(self, page: Page) -> None:
        self.received = 0
        session = page.context.new_cdp_session(page)
        session.on("Network.webSocketFrameReceived", lambda event: self._add(len(event["response"]["payloadData"])))
        session.on("Network.dataReceived", lambda event: self._add(event["encodedDataLength"] or event["dataLength"]))
        session.send("Network.enable")

    def _add(self, count: int) -> None:
        self.received += count

    def rate(self, page: Page, seconds: float) -> float:
        """KB/s over some time from now on."""
        before = self.received
        page.wait_for_timeout(1000 * seconds)
        return round((self.received - before) / seconds / 1e3, 2)


def last_step(page: Page) -> int:
    """Of the loss that the page of a job shows."""
    return page.evaluate(STEP)


class Tabs:
    """A browser, the server that it looks at, and a job that runs meanwhile."""

    def __init__(self, browser: Browser, url: str, server: psutil.Process) -> None:
        self.browser, self.url, self.server = browser, url, server

    def megabytes(self) -> float:
        """Of the server's process; those of jobs are not its."""
        return round(self.server.memory_info().rss / 1e6, 1)

    def wait_until_quiet(self) -> float:
        """Waits until the machine does nothing else: the database writes a million new rows, and a server that has just
        started imports what jobs need. Seconds that took, at most a minute."""
        begin = time.perf_counter()
        while time.perf_counter() - begin < 60 and psutil.cpu_percent(2) > 10:
            pass
        return round(time.perf_counter() - begin, 1)

    def open_times(self, job: str, count: int) -> dict[str, Any]:
        """Seconds from the request of a job's page to its drawn curve, for someone who has the list of jobs open since
        two seconds; the first time, the server and the browser have shown nothing else."""
        page = self.browser.new_page()
        page.goto(self.url)
        page.wait_for_function("window.did_handshake")
        page.wait_for_timeout(2000)
        seconds, answered = [], []
        for _ in range(count):
            begin = time.perf_counter()
            page.goto(f"{self.url}/jobs/{job}")
            page.wait_for_function(DRAWN)
            seconds.append(round(time.perf_counter() - begin, 3))
            answered.append(round(page.evaluate(ANSWERED) / 1000, 3))
            load = psutil.getloadavg()[0]
            print(f"opened in {seconds[-1]} s, answered in {answered[-1]} s, load average {load:.1f}", flush=True)
        page.close()
        return {"open_seconds": seconds, "of_which_answer_seconds": answered}

    def list_times(self, rounds: int) -> dict[str, Any]:
        """Seconds of what people do with a long list of jobs, from the click or key until the page shows it: opened,
        sorted by name, the next page, and searched (which waits 0.3 s for more to be typed)."""
        first = "document.querySelector('tbody th a')?.textContent"
        found: dict[str, list[float]] = {"open": [], "sort": [], "next_page": [], "search": []}
        page = self.browser.new_page()

        def timed(what: str, act: Any, until: str) -> None:
            begin = time.perf_counter()
            act()
            page.wait_for_function(until)
            found[what].append(round(time.perf_counter() - begin, 3))

        for number in range(rounds):
            timed("open", lambda: page.goto(self.url), f"window.did_handshake && {first}")
            newest = page.evaluate(first)
            timed("sort", lambda: page.click("button.sort:has-text('Name')"), f"{first} !== {json.dumps(newest)}")
            least = page.evaluate(first)
            timed("next_page", lambda: page.click("button:has-text('Next')"), f"{first} !== {json.dumps(least)}")
            wanted = f"run {(1000 + number) * 7919 % 100003} of"
            timed(
                "search", lambda text=wanted: page.fill("#search", text), f"{first}?.startsWith({json.dumps(wanted)})"
            )
            print({name: seconds[-1] for name, seconds in found.items()}, flush=True)
        page.close()
        return {f"jobs_{name}_seconds": seconds for name, seconds in found.items()}

    def first_visit_times(self, job: str, count: int) -> dict[str, Any]:
        """Seconds from the request of a job's page to its drawn curve, for someone who has never been here: with an
        empty cache, and no other page before it."""
        seconds = []
        for _ in range(count):
            context = self.browser.new_context()
            page = context.new_page()
            begin = time.perf_counter()
            page.goto(f"{self.url}/jobs/{job}", wait_until="commit")
            page.wait_for_function(DRAWN)
            seconds.append(round(time.perf_counter() - begin, 3))
            print(f"first visit: {seconds[-1]} s, load average {psutil.getloadavg()[0]:.1f}", flush=True)
            context.close()
        return {"first_visit_seconds": seconds}

    def processor_seconds(self) -> float:
        """Of the server, its database and all processes of jobs so far."""
        spent = 0.0
        for process in (self.server, *self.server.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                spent += sum(process.cpu_times()[:4])  # those of its children that have ended too
        return spent

    def example_times(self) -> dict[str, Any]:
        """Seconds from the click on each example until its page says that it has finished, and those of the processor
        that the server and the job took in that time."""
        found: dict[str, Any] = {"example_seconds": {}, "example_processor_seconds": {}, "example_load_average": {}}
        page = self.browser.new_page()
        page.goto(f"{self.url}/examples")
        for title in page.locator(".card h2").all_inner_texts():
            page.goto(f"{self.url}/examples")
            page.wait_for_function("window.did_handshake")
            begin, before = time.perf_counter(), self.processor_seconds()
            page.click(f"[aria-label='Start the example {title}']")
            page.wait_for_selector("dd.state:is(.finished, .failed)", timeout=600_000)
            assert page.locator("dd.state.finished").count() == 1, f"{title} failed"
            values = time.perf_counter() - begin, self.processor_seconds() - before, psutil.getloadavg()[0]
            for name, value in zip(found, values, strict=True):
                found[name][title] = round(value, 1)
            print(title, {name: values[title] for name, values in found.items()}, flush=True)
        page.close()
        return found

    @contextlib.contextmanager
    def live_job(self) -> Iterator[str]:
        body = {"job_name": "live", "workload": "wpo", "command": "train", "cores": 1}
        config = {"data": "moons", "steps": 100_000_000, "centers": 50, "device": "cpu"}
        answer = httpx.post(f"{self.url}/api/jobs", json={**body, "config": config}, timeout=100)
        assert answer.status_code == 201, answer.text
        id = answer.json()["id"]
        yield id
        httpx.post(f"{self.url}/api/jobs/{id}/cancel")

    def traffic(self, live: str, seconds: float) -> dict[str, Any]:
        """What a tab receives per second that follows a running job, and one that shows the list or the devices. The
        curve must have grown in the page meanwhile."""
        found, steps = {}, 0
        for name, path in (("job", f"/jobs/{live}"), ("jobs", "/"), ("devices", "/devices")):
            page = self.browser.new_page()
            traffic = Traffic(page)
            page.goto(self.url + path)
            page.wait_for_function(DRAWN if name == "job" else "window.did_handshake", timeout=200_000)
            page.wait_for_timeout(5000)
            before = last_step(page)
            found[name] = traffic.rate(page, seconds)
            if name == "job":
                steps = last_step(page) - before
                assert steps > 0, "the page does not follow the job"
            print(f"{name}: {found[name]} KB/s, load average {psutil.getloadavg()[0]:.1f}", flush=True)
            page.close()
        return {"live_kb_per_second": found, "live_seconds": seconds, "live_steps_followed": steps}

    def watch(self, live: str, minutes: float, visits: int) -> dict[str, Any]:
        """The server's memory while 4 tabs and 50 clients of the websocket are open, each with a page of its own; all
        of them must be at the end. A page is opened many times before, since what a server takes depends on how many
        it had at once: one that is gone is kept for a while. The first seventh of the time is warm-up too: the growth
        is that from the second to the last, from minutes 10 to 20 to minutes 60 to 70 of 70."""
        tabs = [self.browser.new_page() for _ in range(4)]
        visited = []
        for visit in range(visits):
            tabs[0].goto(f"{self.url}/jobs/{live}")
            tabs[0].wait_for_function(DRAWN, timeout=200_000)
            if visit % 20 == 19:
                visited.append(self.megabytes())
                print(f"{visit + 1} visits: {visited[-1]} MB", flush=True)
        for tab, path in zip(tabs, (f"/jobs/{live}", f"/jobs/{live}", "/", "/devices"), strict=True):
            tab.goto(self.url + path)
        clients = [PageClient(self.url, path) for path in (f"/jobs/{live}", "/") for _ in range(CLIENTS // 2)]
        tabs[0].wait_for_function(DRAWN, timeout=200_000)
        begin, memory, first = time.perf_counter(), [], last_step(tabs[0])
        session, heap = tabs[0].context.new_cdp_session(tabs[0]), []
        while time.perf_counter() - begin < 60 * minutes:
            tabs[0].wait_for_timeout(5000)
            memory.append(self.megabytes())
            if len(memory) % 60 == 1:  # every five minutes, what a tab holds
                session.send("HeapProfiler.collectGarbage")
                heap.append(round(session.send("Runtime.getHeapUsage")["usedSize"] / 1e6, 1))
        middle = last_step(tabs[0])
        tabs[0].wait_for_function(f"() => ({STEP})() > {middle}", timeout=200_000)  # it follows to the end
        lost = [client.ended for client in clients if not client.open]
        assert not lost, f"{len(lost)} of {len(clients)} clients were cut off: {lost[0]}"
        answered = min(client.pings for client in clients), sum(client.messages for client in clients)
        for client in clients:
            client.close()
        part = max(1, len(memory) // 7)
        early, late = statistics.median(memory[part : 2 * part] or memory), statistics.median(memory[-part:])
        print(f"the server's memory: {early} MB in the second seventh, {late} MB in the last", flush=True)
        return {
            "server_mb_after_each_20_visits": visited,
            "minutes": minutes,
            "clients_open_at_the_end": len(clients),
            "pings_answered_by_each_at_least": answered[0],
            "messages_to_clients": answered[1],
            "server_mb_over_time": memory[:: max(1, len(memory) // 70)],
            "server_mb_second_seventh": round(early, 1),
            "server_mb_last_seventh": round(late, 1),
            "server_mb_grown": round(late - early, 1),
            "server_mb_highest": max(memory),
            "tab_heap_mb_every_5_minutes": heap,
            "watched_steps": middle - first,
        }


def measure(url: str, server: psutil.Process, job: str | None, asked: argparse.Namespace) -> dict[str, Any]:
    with sync_playwright() as playwright:
        path = next(browser for browser in BROWSERS if browser.exists())
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        tabs = Tabs(browser, url, server)
        found: dict[str, Any] = {"server_mb_before": tabs.megabytes()}
        if job is not None:
            found["seconds_until_quiet"] = tabs.wait_until_quiet()
            found |= tabs.first_visit_times(job, asked.opens) | tabs.open_times(job, asked.opens)
        if asked.only in (None, "jobs"):
            found |= {"jobs": asked.jobs, "seconds_until_quiet": tabs.wait_until_quiet()} | tabs.list_times(asked.opens)
        if asked.only in (None, "examples"):
            found |= tabs.example_times()
        if asked.only not in ("open", "jobs", "examples"):
            with tabs.live_job() as live:
                if asked.only != "hour":
                    found |= tabs.traffic(live, asked.seconds)
                if asked.only != "traffic":
                    found |= tabs.watch(live, asked.minutes, asked.visits)
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--opens", type=int, default=5, help="how many times the page with those rows is opened")
    parser.add_argument("--seconds", type=float, default=60.0, help="over which the traffic of a tab is measured")
    parser.add_argument("--minutes", type=float, default=0.5, help="for which memory is watched: 70 for the hour")
    parser.add_argument("--visits", type=int, default=120, help="before memory is watched")
    parser.add_argument("--only", choices=("open", "jobs", "examples", "traffic", "hour"))
    parser.add_argument("--jobs", type=int, default=5000, help="in the list of jobs")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bf-", dir="/tmp"))
    folder.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = Store(Database.at(home=folder / "postgres"))
    store.migrate()
    job = fill(store, asked.rows) if asked.only in (None, "open") else None
    if asked.only in (None, "jobs"):
        fill_jobs(store, asked.jobs)
    command = [sys.executable, "-m", "brimful", "serve", "--state", str(folder), "--port", str(port), "--cores", "2"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                if httpx.get(f"{url}/readyz").status_code == 200:
                    break
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        found = {} if job is None else {"rows": asked.rows}
        found |= measure(url, psutil.Process(server.pid), job, asked)
    finally:
        server.terminate()
        server.wait(60)
        store.close()
    found |= {"cores": psutil.cpu_count(), "load_average_after": psutil.getloadavg()[0]}
    print(json.dumps(found, indent=1))
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
