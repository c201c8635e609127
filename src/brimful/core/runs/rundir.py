"""The run directory: where a run keeps what it has finished, so that nothing finished is lost.

    lock            held by the process that writes; the system frees it when that process dies
    manifest.json   what the run is: config, fingerprint of the input, plan, versions; sealed
    events.jsonl    what happened, one event per line
    ...             shards or checkpoints, each written whole or not at all

A directory is opened again only for the same config and input; otherwise it is refused, and the error says
what changed. Killing the writer at any instant leaves a directory that opens.
"""

import contextlib
import errno
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch

from ..base import version
from ..base.errors import ChangedError, CorruptError, RunDirError, StorageError
from ..base.field_types import fits
from . import fingerprint, lock
from .events import JsonLines
from .files import TEMPORARY, is_temporary, read_sealed, storage_error, write_sealed
from .lock import LOCK
from .log_state import LogState, read_state

MANIFEST, LOG = "manifest.json", "events.jsonl"
_KIND = "brimful.run/1"
_LATEST = 1e11  # seconds since 1970 that a clock may show


class RunDir(contextlib.AbstractContextManager["RunDir"]):
    """An open run directory; a context manager. Make one with `RunDir.open`.

    Attributes:
        path: the directory.
        resumed: whether it held this run already.
        identity: a digest of what the run is; files inside carry it, so that none from another run is taken.
        before: what the log said of earlier parts of the run.
    """

    def __init__(self, path: Path, handle: int, manifest: dict[str, Any], resumed: bool) -> None:
        self.path, self._lock, self.manifest, self.resumed = path, handle, manifest, resumed
        self.identity, self.before = identity_of(manifest), read_state(path / LOG)
        self.log = JsonLines(path / LOG)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        work: str,
        config: dict[str, Any],
        input: str | None,
        resume: bool = True,
        kind: str | None = None,
    ) -> Self:
        """Makes the directory, or opens one that holds the same run, and locks it.

        Args:
            path: the directory; its parents are made too.
            work: what kind of work it is, such as "map" or "gp fit".
            config: the settings that decide the result, as JSON values.
            input: the fingerprint of the input; None where the config says it all.
            resume: False refuses a directory that holds a run already, even the same one.
            kind: the verb whose result `brimful.open` gives once the run has finished.

        Raises:
            LockedError: another process is writing to it.
            ChangedError: it holds a run with another config or input.
            CorruptError: its manifest is damaged.
            RunDirError: it holds files that are not a run's.
        """
        path = Path(path)
        if path.exists() and not path.is_dir():
            raise RunDirError(f"{path} is a file; a run needs a directory. Choose another name.")
        try:
            path.mkdir(parents=True, exist_ok=True)
            _refuse_foreign(path)
            handle = lock.take(path)
        except OSError as error:
            raise _not_writable(path, error) from error
        try:
            wanted = {"work": work, "config": json.loads(_text(config)), "input": input}
            stored = _stored_manifest(path)
            if stored is not None:
                if not resume:
                    raise RunDirError(
                        f"{path} already holds a run of {stored['work']!r}. Use resume=True to go on with it, or "
                        "choose another directory."
                    )
                _refuse_changes(path, stored, wanted)
            for file in path.rglob(f"*{TEMPORARY}"):
                if is_temporary(file):
                    file.unlink(missing_ok=True)
            manifest = stored or _new_manifest(path, wanted | {"kind": kind})
            return cls(path, handle, manifest, resumed=stored is not None)
        except BaseException as error:
            lock.release(handle)
            if isinstance(error, OSError):
                raise storage_error(path, error) from error
            raise

    def record(self, **facts: Any) -> None:
        """Adds facts to the manifest, such as the plan; on disk when this returns."""
        self.manifest = {**self.manifest, **facts}
        write_sealed(self.path / MANIFEST, _KIND, self.manifest)

    def check_present(self) -> None:
        """Raises `StorageError` where the directory was deleted, or replaced, since it was opened."""
        try:
            held, there = os.fstat(self._lock), (self.path / LOCK).stat()
            same = (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino) and (self.path / MANIFEST).exists()
        except OSError:
            same = False
        if not same:
            raise StorageError(
                f"{self.path} was deleted or replaced during the run. Run the same command again to redo it."
            )

    def close(self) -> None:
        """Frees the directory for others."""
        if self._lock >= 0:
            self.log.close()
            lock.release(self._lock)
            self._lock = -1

    def __exit__(self, *error: object) -> None:
        self.close()


def _text(config: dict[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)


def identity_of(manifest: dict[str, Any]) -> str:
    """A digest of what a run is."""
    return fingerprint.of([manifest["work"], _text(manifest["config"]), manifest["input"]])


def _not_writable(path: Path, error: OSError) -> StorageError:
    refused = storage_error(path, error)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) and (path / MANIFEST).exists():
        return StorageError(f"{refused}. The result of a run that has finished is read by brimful.open({str(path)!r})")
    return refused


def read_manifest(path: Path) -> dict[str, Any]:
    """What a run directory says it is.

    Raises:
        CorruptError: the manifest is not there, or is damaged.
    """
    manifest = read_sealed(path / MANIFEST, _KIND)
    expected = {"work": str, "config": dict, "input": str | None, "created": float | int}
    fits = isinstance(manifest, dict) and all(isinstance(manifest.get(name), of) for name, of in expected.items())
    if not fits or not 0 <= manifest["created"] < _LATEST or not isinstance(manifest.get("items"), int | None):
        raise CorruptError(f"{path / MANIFEST} is damaged: it lacks what every run has, or has other values for it")
    return manifest


def _stored_manifest(path: Path) -> dict[str, Any] | None:
    if not os.path.lexists(path / MANIFEST):
        return None
    try:
        return read_manifest(path)
    except CorruptError as error:
        raise CorruptError(
            f"{error}. To go on, delete that file and run the same command again: each finished file carries "
            "the run's identity and is kept if it belongs to it."
        ) from error


def _refuse_foreign(path: Path) -> None:
    """Before anything is written there: somebody else's folder is left as it was."""
    names = sorted(file.name for file in path.iterdir() if not is_temporary(file))
    if names and LOCK not in names:  # every run's directory has had one from its first moment on
        raise RunDirError(
            f"{path} holds files that are no run's ({', '.join(names[:3])}). Choose an empty or new directory."
        )


def _new_manifest(path: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    manifest = {
        **wanted,
        "created": time.time(),
        "command": shlex.join(sys.argv),
        "versions": {
            "brimful": version.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
    (path / LOG).touch()  # before the manifest: a directory with a log is known as a run's from here on
    write_sealed(path / MANIFEST, _KIND, manifest)
    return manifest


def _refuse_changes(path: Path, stored: dict[str, Any], wanted: dict[str, Any]) -> None:
    changes = list(_changes("", stored["config"], wanted["config"]))
    if stored["work"] != wanted["work"]:
        changes.insert(0, f"it holds a run of {stored['work']!r}, not of {wanted['work']!r}")
    if stored["input"] != wanted["input"]:
        changes.append("the input data is not the same")
    if changes:
        raise ChangedError(
            f"{path} cannot be resumed: {'; '.join(changes)}. Choose another directory, or go back to the old settings."
        )


def _changes(prefix: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            name = f"{prefix}.{key}" if prefix else key
            yield from _changes(name, old.get(key), new.get(key))
    elif old != new:
        yield f"{prefix} was {old!r} and is now {new!r}"


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a run directory says of itself, read without locking it.

    Attributes:
        state: "running" (a live process holds the lock), "finished", "failed", "interrupted", "killed" (its
            process died without a word) or "damaged"; all but "finished" and "damaged" can be resumed.
        done: items done; of a run that does not run, those that are kept.
        seconds: of all its parts.
    """

    path: str
    work: str
    state: str
    created: float | None
    done: int
    items: int | None
    bad: int
    seconds: float = 0.0


def inspect(path: Path) -> RunInfo:
    """Reads a run directory's state without disturbing it."""
    try:
        manifest = read_manifest(path)
    except CorruptError:
        return RunInfo(str(path), "?", "damaged", None, 0, None, 0)
    running = lock.is_locked(path)  # before the log: a run that ends in between has said so there
    logged = read_state(path / LOG)
    if logged == LogState():  # without a log: what a finished run recorded
        logged = _recorded(manifest) or logged
    items = manifest.get("items") if logged.items is None else logged.items
    state, done = ("running", logged.done) if running else (logged.state, logged.kept)
    done = done if items is None else min(done, items)
    return RunInfo(str(path), manifest["work"], state, manifest["created"], done, items, logged.bad, logged.seconds)


def _recorded(manifest: dict[str, Any]) -> LogState | None:
    result = manifest.get("result")
    values: dict[str, Any] = {}
    if isinstance(result, dict):
        values = {name: result.get(name) for name in ("done", "bad", "seconds")}
    if not values or not fits(LogState, values):
        return None
    return LogState(state="finished", kept=values["done"], items=values["done"], **values)


def find(root: Path, depth: int = 3) -> list[RunInfo]:
    """All run directories under a folder, newest first."""
    manifests = (file for level in range(depth + 1) for file in root.glob("*/" * level + MANIFEST))
    return sorted((inspect(file.parent) for file in manifests), key=lambda run: -(run.created or 0))
