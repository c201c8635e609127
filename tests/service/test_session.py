"""The first session of the README, typed as it stands, against a real server with its own database."""

import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brimful.service.address import published
from brimful.service.runner.webhooks import SECRET
from brimful.service.webhooks.signature import verify

from ..helpers.paths import ROOT
from ..helpers.stopping import wait_for

pytestmark = pytest.mark.soak


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, for the database's socket, and open to the account that root's database runs under."""
    path = Path(tempfile.mkdtemp(prefix="bf-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def commands() -> list[list[str]]:
    section = (ROOT / "README.md").read_text().partition("## A job server")[2].partition("\n## ")[0]
    return [line.split() for line in re.findall(r"^    \$ brimful ([^#\n]*)", section, re.MULTILINE)]


def brimful(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "brimful", *arguments]


def test_the_five_commands_of_the_readme_and_a_webhook(folder: Path):
    lines = commands()
    assert [line[:2] for line in lines] == [
        ["serve", "&"],
        ["jobs", "submit"],
        ["jobs", "watch"],
        ["jobs", "artifacts"],
        ["jobs", "list"],
    ]
    state = folder / "state"
    environment = os.environ | {"BRIMFUL_STATE_DIR": str(state), "PYTHONPATH": str(ROOT / "src")}
    for name in ("BRIMFUL_URL", "BRIMFUL_POSTGRES_DIR", "BRIMFUL_DATABASE_URL"):
        environment.pop(name, None)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(brimful(*arguments), env=environment, cwd=folder, capture_output=True, text=True)

    with (folder / "log").open("wb") as log, Receiver() as receiver:
        serve = brimful("serve", "--port", "0", "--webhook-private")
        server = subprocess.Popen(serve, env=environment, cwd=folder, stdout=log, stderr=log)
        try:
            wait_for(lambda: published(state))
            submitted = run(*lines[1][:2], "--webhook", receiver.url, *lines[1][2:])
            assert submitted.returncode == 0, submitted.stderr
            watched = run(*lines[2])
            assert watched.returncode == 0, watched.stderr
            assert "nets train: finished, 2,000 items" in watched.stderr
            assert run(*lines[3]).returncode == 0
            assert (folder / "result" / "nets.png").exists()
            assert "finished" in run(*lines[4]).stdout
            wait_for(lambda: receiver.received)
            [(headers, body)] = receiver.received
            verify((state / SECRET).read_text().strip(), headers, body)
            assert json.loads(body)["type"] == "job.finished"
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0


class Receiver(http.server.ThreadingHTTPServer):
    """Accepts webhooks on this machine."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/"
        self._thread = threading.Thread(target=self.serve_forever)

    def __enter__(self) -> "Receiver":
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    server: Receiver  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.received.append(({name.lower(): text for name, text in self.headers.items()}, body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass
