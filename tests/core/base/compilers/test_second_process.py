"""Loops compiled in a second process: found by the first, which fares well whatever happens to the second."""

import importlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import psutil
import pytest

from brimful.core.base.compilers import activity, numba_cache, second_process

SOURCE = """
import os, sys, time
from pathlib import Path
from numba import types
from brimful.core.base.compilers.numba_cache import cached_njit

HERE = Path(__file__).parent
SIGNATURE = types.int64(types.int64)

@cached_njit()
def more(x):
    return x + 1

def compile_it():
    (HERE / "imported").write_text(" ".join(sys.modules))
    more.compile(SIGNATURE)

def end_early():
    os.kill(os.getpid(), 9)

def never_end():
    (HERE / "part").write_text(str(os.getpid()))
    (HERE / "part").rename(HERE / "pid")
    time.sleep(600)
"""
PARENT = """
import os, time
from pathlib import Path
import package.inner.looping as looping
from brimful.core.base.compilers import second_process
second_process.cores = lambda: 2
with second_process.second_process("package.inner.looping", "never_end"):
    while not (looping.HERE / "pid").exists():
        time.sleep(0.01)
    os._exit(0)
"""


@pytest.fixture
def looping(tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module with a loop, in packages that cannot be imported twice."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "", raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(second_process, "cores", lambda: 2)
    inner = tmp_path / "package" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("import json.tool")
    (inner / "__init__.py").touch()
    (inner / "looping.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("package.inner.looping")
    for name in ("package", "package.inner", "package.inner.looping"):
        sys.modules.pop(name, None)


def started(looping: Any, function: str) -> Any:
    return second_process.second_process(looping.__name__, function)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


class Listener:
    def __init__(self) -> None:
        self.reported: list[str] = []

    def begin(self, certain: bool) -> None:
        self.reported.append("begin")

    def end(self, compiled: bool) -> None:
        self.reported.append("end")


def test_a_loop_compiled_there_is_found_here(looping: Any):
    assert numba_cache.is_missing(looping.more, looping.SIGNATURE)
    listener = Listener()
    with activity.listening(listener), started(looping, "compile_it") as wait:
        wait()
    assert listener.reported == ["begin", "end"]
    assert not numba_cache.is_missing(looping.more, looping.SIGNATURE)
    looping.more.compile(looping.SIGNATURE)
    assert sum(looping.more.stats.cache_hits.values()) == 1
    assert "json.tool" not in (looping.HERE / "imported").read_text().split()


def test_a_loop_that_is_compiled_or_cannot_be_kept_is_not_missing(
    looping: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    looping.more.compile(looping.SIGNATURE)
    assert not numba_cache.is_missing(looping.more, looping.SIGNATURE)
    (tmp_path / "file").touch()
    monkeypatch.setenv("BRIMFUL_CACHE_DIR", str(tmp_path / "file"))
    unkept = numba_cache.cached_njit()(looping.more.py_func)
    assert not numba_cache.is_missing(unkept, looping.SIGNATURE)
    assert unkept(1) == 2


@pytest.mark.parametrize("function", ["end_early", "not_there"])
def test_that_it_dies_is_no_error(looping: Any, function: str):
    with started(looping, function) as wait:
        wait()
    assert numba_cache.is_missing(looping.more, looping.SIGNATURE)


@pytest.mark.parametrize("executable", ["", "/does/not/exist", None])
def test_that_it_cannot_be_started_is_no_error(looping: Any, monkeypatch: pytest.MonkeyPatch, executable: Any):
    monkeypatch.setattr(sys, "executable", executable)
    with started(looping, "compile_it") as wait:
        wait()
    assert numba_cache.is_missing(looping.more, looping.SIGNATURE)


def test_one_core_is_left_to_the_first(looping: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(second_process, "cores", lambda: 1)
    with started(looping, "compile_it") as wait:
        wait()
    assert not (looping.HERE / "imported").exists()


def test_it_ends_with_the_block(looping: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(second_process, "_PATIENCE", 0.01)
    with pytest.raises(KeyboardInterrupt), started(looping, "never_end") as wait:
        wait_for((looping.HERE / "pid").exists)
        wait()  # not for ever
        raise KeyboardInterrupt
    assert not psutil.pid_exists(int((looping.HERE / "pid").read_text()))


def test_it_ends_with_the_first_process(looping: Any, tmp_path: Path):
    source = Path(second_process.__file__).parents[4]
    given = {"PYTHONPATH": f"{source}:{tmp_path}", "BRIMFUL_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", PARENT], env=given, check=True)
    pid = int((looping.HERE / "pid").read_text())
    wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
