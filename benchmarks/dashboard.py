"""The dashboard under load: a job with a million metric rows opened, followed live, with other tabs and sockets open.

Needs Chromium. It starts a server of its own on an embedded database; `--minutes` watches its memory for longer.
"""

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
from playwright.sync_api import sync_playwright

from brimful.data.database.connection import Database
from brimful.service.jobs.job import JobRequest
from brimful.service.store import Store
from brimful.service.store.metric_ranges import ADD, LEVELS

DRAWN = (
    "() => /at step \\d+/.test(document.querySelector('[data-metric=loss] .plot')?.getAttribute('aria-label') ?? '')"
)


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


def sockets(url: str, count: int) -> list[socket.socket]:
    """Connections to the pages' websocket, left open."""
    host, port = url.removeprefix("http://").split(":")
    head = f"Host: {host}:{port}\r\nOrigin: {url}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    head += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    opened = []
    for _ in range(count):
        connection = socket.create_connection((host, int(port)))
        connection.sendall(f"GET /_nicegui_ws/socket.io/?EIO=4&transport=websocket HTTP/1.1\r\n{head}".encode())
        assert b" 101 " in connection.recv(1000)
        opened.append(connection)
    return opened


def measure(url: str, server: psutil.Process, job: str, minutes: float) -> dict[str, Any]:
    found: dict[str, Any] = {"server_mb_before": round(server.memory_info().rss / 1e6, 1)}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(url)
        page.wait_for_function("window.did_handshake")
        opened = []
        for _ in range(5):
            begin = time.perf_counter()
            page.goto(f"{url}/jobs/{job}")
            page.wait_for_function(DRAWN)
            opened.append(round(time.perf_counter() - begin, 3))
        found["open_seconds"] = opened
        body = {"job_name": "live", "workload": "wpo", "command": "train", "cores": 1}
        config = {"data": "moons", "steps": 100_000, "centers": 50, "device": "cpu"}
        live = httpx.post(f"{url}/api/jobs", json={**body, "config": config}, timeout=100).json()["id"]
        page.goto(f"{url}/jobs/{live}")
        page.wait_for_function(DRAWN, timeout=200_000)
        tabs = [browser.new_page() for _ in range(3)]
        for tab, path in zip(tabs, (f"/jobs/{live}", "/", "/devices"), strict=True):
            tab.goto(url + path)
        open_sockets = sockets(url, 50)
        found["server_mb_with_50_sockets_and_4_tabs"] = round(server.memory_info().rss / 1e6, 1)
        begin, memory = time.perf_counter(), []
        while time.perf_counter() - begin < 60 * minutes:
            page.wait_for_timeout(5000)
            memory.append(round(server.memory_info().rss / 1e6, 1))
        found["server_mb_over_time"] = memory[:: max(1, len(memory) // 20)]
        httpx.post(f"{url}/api/jobs/{live}/cancel")
        for connection in open_sockets:
            connection.close()
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bf-", dir="/tmp"))
    folder.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = Store(Database.at(home=folder / "postgres"))
    store.migrate()
    job = fill(store, asked.rows)
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
        found = {"rows": asked.rows, **measure(url, psutil.Process(server.pid), job, asked.minutes)}
    finally:
        server.terminate()
        server.wait(60)
        store.close()
    print(json.dumps(found, indent=1))
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
