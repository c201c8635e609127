"""Where the local server is."""

import json
import os
from pathlib import Path

import pytest

from brimful.service import address


def test_a_server_that_runs_is_found(tmp_path: Path):
    assert address.published(tmp_path) is None
    address.publish(tmp_path, "http://127.0.0.1:8000")
    there = address.published(tmp_path)
    assert there is not None
    assert (there.url, there.pid) == ("http://127.0.0.1:8000", os.getpid())
    address.withdraw(tmp_path)
    assert address.published(tmp_path) is None
    address.withdraw(tmp_path)


def test_one_that_has_ended_is_not(tmp_path: Path):
    address.publish(tmp_path, "http://127.0.0.1:8000")
    values = json.loads((tmp_path / address.NAME).read_text())
    # The number is another process's by now, or nobody's.
    for change in (
        {"started": values["started"] - 100},
        {"pid": 2**22 + 1},
    ):
        (tmp_path / address.NAME).write_text(json.dumps(values | change))
        assert address.published(tmp_path) is None


def test_the_address_of_another_server_stays(tmp_path: Path):
    address.publish(tmp_path, "http://127.0.0.1:8000")
    values = json.loads((tmp_path / address.NAME).read_text())
    (tmp_path / address.NAME).write_text(json.dumps(values | {"pid": os.getppid()}))
    address.withdraw(tmp_path)
    assert (tmp_path / address.NAME).exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"url": 1, "pid": 2, "started": 3}', '{"url": "x"}'])
def test_a_damaged_file_is_no_server(tmp_path: Path, content: str):
    (tmp_path / address.NAME).write_text(content)
    assert address.published(tmp_path) is None


def test_where_the_state_is():
    assert address.state_directory(Path("/x")) == Path("/x")
    assert address.state_directory(environ={"BRIMFUL_STATE_DIR": "/y"}) == Path("/y")
    assert address.state_directory(environ={}).parts[-2:] == ("brimful", "service")
