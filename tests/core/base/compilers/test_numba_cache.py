"""Compiled loops on disk: in the user's cache directory, and never a reason to fail."""

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import pytest

from brimful.core.base.compilers import numba_cache

SOURCE = """
from brimful.core.base.compilers.numba_cache import cached_njit

@cached_njit(nogil=True)
def more(x):
    return x + 1
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Imports a module with a loop, each time anew."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "", raising=False)
    file = tmp_path / "package" / "looping.py"
    file.parent.mkdir()
    file.write_text(SOURCE)

    def imported() -> Any:
        spec = importlib.util.spec_from_file_location("looping", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "looping", module)
        spec.loader.exec_module(module)
        return module.more

    return imported


def kept(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.rglob("looping.*"))


def test_a_loop_is_kept_in_the_users_cache_directory(load: Callable[[], Any], cache_dir: Path, tmp_path: Path):
    first = load()
    assert first(1) == 2
    assert sum(first.stats.cache_misses.values()) == 1
    assert numba_cache.loop_directory() == cache_dir / "numba"
    assert kept(cache_dir / "numba") == [".nbc", ".nbi"]
    assert not list((tmp_path / "package").rglob("*.nb*"))
    second = load()
    assert second(1) == 2
    assert sum(second.stats.cache_hits.values()) == 1


def test_a_damaged_file_is_compiled_anew(load: Callable[[], Any], cache_dir: Path):
    load()(1)
    for path in cache_dir.rglob("looping.*"):
        path.write_bytes(b"junk")
    assert load()(1) == 2
    assert sum((again := load()).stats.cache_hits.values()) == 0
    assert again(1) == 2


@pytest.mark.parametrize("where", ["under a file", "read-only"])
def test_where_nothing_can_be_written_it_compiles(
    load: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
):
    if where == "under a file":
        (tmp_path / "file").touch()
        monkeypatch.setenv("BRIMFUL_CACHE_DIR", str(tmp_path / "file"))
        loop = load()
    else:
        loop = load()

        def refuse(*_: Any, **__: Any) -> None:
            raise OSError(30, "Read-only file system")

        monkeypatch.setattr(os, "replace", refuse)
    assert loop(1) == 2


def test_numbas_own_setting_takes_precedence(load: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "theirs"))
    load()(1)
    assert kept(tmp_path / "theirs") == [".nbc", ".nbi"]


def test_other_peoples_loops_are_where_they_were():
    assert not getattr(numba.config, "CACHE_LOCATOR_CLASSES", "")
    from numba.core import caching

    assert caching.CacheImpl._locator_classes[1] is caching.InTreeCacheLocator
