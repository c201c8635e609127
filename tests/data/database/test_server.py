"""The embedded server: started once, shared, stopped with its last user, and started again after any crash."""

import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from brimful import ConfigError, StorageError
from brimful.core.base import directories
from brimful.data.database import server, server_directory

from ...helpers import forking
from ...helpers.stopping import wait_for
from .conftest import Server

USER = """
import sys, time
from pathlib import Path
from brimful.data.database import server
server.server_url(sys.argv[1])
Path(sys.argv[2]).touch()
while not Path(sys.argv[3]).exists():
    time.sleep(0.01)
server.stop()
"""


class User:
    """Another process that uses a server until it is asked to end."""

    def __init__(self, home: str, folder: Path) -> None:
        self._up, self._end = folder / "up", folder / "end"
        self.process = forking.imported().start(forking.run_text, USER, home, str(self._up), str(self._end))
        wait_for(lambda: self._up.exists() or self.process.poll() is not None)
        assert self.process.poll() is None

    def end(self) -> None:
        self._end.touch()
        assert self.process.wait(60) == 0


def running(home: str) -> list[int]:
    return server._servers_of(Path(home) / "data")


def postmaster(home: str) -> int:
    return int((Path(home) / "data" / "postmaster.pid").read_text().split()[0])


def test_it_is_shared_and_stopped_by_its_last_user_even_after_one_was_killed(own: Server, tmp_path: Path):
    mode = Path(own.home).parent.stat().st_mode
    killed = User(own.home, tmp_path)
    first = postmaster(own.home)
    assert own.execute("SELECT 1") == [(1,)]  # this process uses the same one
    assert postmaster(own.home) == first
    killed.process.kill()
    killed.process.wait(30)
    server.stop(own.home)  # nobody else is left, though one never said so
    assert not running(own.home)
    assert own.execute("SELECT 1") == [(1,)]
    assert postmaster(own.home) != first
    assert stat.S_IMODE(Path(own.home).stat().st_mode) == 0o700
    assert Path(own.home).parent.stat().st_mode == mode


def test_a_crash_leaves_nothing_that_keeps_it_from_starting(own: Server):
    own.execute("CREATE TABLE t AS SELECT 7 AS x")
    os.kill(postmaster(own.home), signal.SIGKILL)
    wait_for(lambda: not running(own.home))
    pid_file = Path(own.home) / "data" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")  # a number that is another process's now
    with own.database.session() as connection:
        assert connection.execute("SELECT x FROM t").fetchone() == (7,)


def test_a_start_that_was_killed_half_way_is_done_again(own: Server):
    own.execute("SELECT 1")
    os.kill(postmaster(own.home), signal.SIGKILL)
    wait_for(lambda: not running(own.home))
    (Path(own.home) / "data" / "postmaster.pid").unlink()  # the next file is not removed yet
    lock = Path(own.home) / f".s.PGSQL.{server.PORT}.lock"
    account = server_directory.account_of(Path(own.home).stat().st_uid)
    with subprocess.Popen(["sleep", "100"], **account.as_it) as other:
        lock.write_text("\n".join([str(other.pid), *lock.read_text().splitlines()[1:]]) + "\n")
        try:
            assert own.execute("SELECT 1") == [(1,)]
        finally:
            other.kill()


def test_a_server_that_someone_else_starts_meanwhile_is_used(own: Server, monkeypatch: pytest.MonkeyPatch):
    own.execute("SELECT 1")
    monkeypatch.setattr(server, "_remove_stale", lambda *values: False)  # it was not there yet when that looked
    home, url = Path(own.home), server.url_in_use(own.home)
    assert url is not None
    first = postmaster(own.home)
    server._start(home, home, server_directory.account_of(home.stat().st_uid), url)
    assert postmaster(own.home) == first


def test_a_server_that_others_use_is_left_running(own: Server, tmp_path: Path):
    own.execute("SELECT 1")
    other = User(own.home, tmp_path)
    server.stop(own.home)
    assert running(own.home)
    other.end()
    assert not running(own.home)


def test_directories_that_others_can_enter_are_refused(tmp_path: Path):
    open_one = tmp_path / "open"
    open_one.mkdir()
    owner = server_directory.account_of(None)
    os.chown(open_one, owner.uid, owner.gid)
    open_one.chmod(0o755)
    with pytest.raises(ConfigError, match=r"mode 755.*others could reach"):
        server.server_url(open_one)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError):
        server.server_url(tmp_path / "file" / "below")


@pytest.mark.skipif(os.geteuid() != 0, reason="for root, whose server runs under another account")
def test_root_is_told_which_folder_the_server_cannot_enter(tmp_path: Path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(ConfigError, match=r"may not enter .* \(mode 700\)"):
        server.server_url(closed / "postgres")
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


def test_a_long_path_has_its_socket_in_a_private_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(server_directory.tempfile, "gettempdir", lambda: str(tmp_path))
    long = tmp_path / ("x" * 90)
    long.mkdir()
    account = server_directory.Account(os.geteuid(), os.getegid())
    short = server_directory.socket_directory(long, account)
    assert short.parent == tmp_path
    assert stat.S_IMODE(short.stat().st_mode) == 0o700
    short.chmod(0o777)
    with pytest.raises(ConfigError, match="mode 777"):
        server_directory.socket_directory(long, account)


def test_data_of_another_version_is_refused(own: Server, tmp_path: Path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "PG_VERSION").write_text("9\n")
    with pytest.raises(StorageError, match="was made by PostgreSQL 9, and what is installed is"):
        server._programs(data)


def test_where_it_lives(monkeypatch: pytest.MonkeyPatch):
    assert server_directory.home_directory(environ={"BRIMFUL_POSTGRES_DIR": "/x/y"}) == Path("/x/y")
    assert server_directory.home_directory("/z", environ={"BRIMFUL_POSTGRES_DIR": "/x/y"}) == Path("/z")
    monkeypatch.setattr(directories.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(directories.sys, "platform", "linux")
    assert server_directory.home_directory(environ={"XDG_DATA_HOME": "/d"}) == Path("/d/brimful/postgres")
    monkeypatch.setattr(directories.os, "geteuid", lambda: 0)
    assert server_directory.home_directory(environ={}) == Path("/var/lib/brimful/postgres")
