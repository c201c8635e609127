"""Who gets in, and the security headers."""

import re
import socket

import pytest

from brimful.service.dashboard.examples import EXAMPLES

from ...helpers.dashboard_server import DashboardServer
from .accessibility import check_accessible
from .conftest import Open, go

pytestmark = pytest.mark.browser


def test_a_browser_without_a_token_is_asked_for_one_and_gets_where_it_wanted(server: DashboardServer, open_page: Open):
    page = open_page("/?state=finished", token=None)
    assert "/login" in page.url
    check_accessible(page)
    page.fill("#token", "brimful_000000000000_" + "x" * 43)
    page.click("text=Log in")
    page.wait_for_selector("text=not one of this server's")
    page.fill("#token", "hunter2")
    page.click("text=Log in")
    page.wait_for_selector("text=that is not one")
    assert page.context.cookies() == []
    page.fill("#token", server.token)
    page.click("text=Log in")
    page.wait_for_selector("nav[aria-label=Pages]")
    [cookie] = page.context.cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Lax"
    page.click("text=Log out")
    page.wait_for_selector("#token")
    assert page.context.cookies() == []


def test_a_first_visit_offers_an_example_of_each_workload_with_one_click(server: DashboardServer, open_page: Open):
    server.delete_all()
    page = open_page("/")
    page.wait_for_selector("h1:has-text('No jobs yet')")
    assert page.locator(".card h2").all_inner_texts() == [example.title for example in EXAMPLES]
    page.click("[aria-label='Start the example Tiny networks']")
    page.wait_for_selector("h1:has-text('Example: Tiny networks')")
    id = page.url.rpartition("/")[2]
    assert server.job(id)["command"] == "train"
    server.api.post(f"/api/jobs/{id}/cancel")
    go(page, server.url)
    page.wait_for_selector(f"tr[data-job='{id}']")
    page.click("a:has-text('Examples')")
    page.wait_for_selector("h1:has-text('Examples')")
    assert page.locator(".card h2").all_inner_texts() == [example.title for example in EXAMPLES]
    check_accessible(page)


def test_a_token_that_reads_changes_nothing(server: DashboardServer, open_page: Open):
    id = server.submit("a job to look at", "wait", seconds=30)
    page = open_page(f"/jobs/{id}", token=server.reader, width=390)
    page.wait_for_selector("text=read only")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("button:has-text('Cancel')").count() == 0
    answer = page.evaluate(f"fetch('/api/jobs/{id}/cancel', {{method: 'POST'}}).then(answer => answer.status)")
    assert answer == 403
    server.api.post(f"/api/jobs/{id}/cancel")
    server.wait(id)


def test_headers_of_pages(server: DashboardServer):
    answer = server.api.get("/", headers={"accept": "text/html"})
    policy = answer.headers["content-security-policy"]
    script = re.search(r"script-src ([^;]*)", policy)
    assert script and "'unsafe-inline'" not in script[1]
    nonce = re.search(r"'nonce-([^']+)'", script[1])
    assert nonce and set(re.findall(r'<script nonce="([^"]+)"', answer.text)) == {nonce[1]}
    assert len(re.findall(r"<script\b", answer.text)) == answer.text.count(f'<script nonce="{nonce[1]}"')
    for part in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "connect-src 'self'"):
        assert part in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"


def test_another_origin_opens_no_websocket_and_changes_nothing(server: DashboardServer):
    other = server.url.replace("127.0.0.1", "localhost")  # a name of its own is an origin of its own
    assert handshake(server, origin=server.url) == 101
    for origin in ("https://evil.example", other, "null"):
        assert handshake(server, origin=origin) == 403
        assert server.api.post("/logout", headers={"origin": origin}).status_code == 403
    assert handshake(server, origin=server.url, cookie="brimful_token=wrong") == 403
    assert server.api.post("/logout", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    polling = server.api.get("/_nicegui_ws/socket.io/?EIO=4&transport=polling")
    assert polling.status_code == 400  # a transport of plain requests would pass for reading


def handshake(server: DashboardServer, origin: str, cookie: str | None = None) -> int:
    """The status of a request for the pages' websocket."""
    host = server.url.removeprefix("http://")
    lines = {
        "Host": host,
        "Origin": origin,
        "Cookie": cookie or f"brimful_token={server.token}",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with socket.create_connection((host.split(":")[0], int(host.split(":")[1])), 30) as connection:
        path = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
        connection.sendall(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
        return int(connection.recv(1000).split()[1])
