"""The run directory: where a run keeps what it has finished, so that nothing finished is lost.

    lock            held by the process that writes; the system frees it when that process dies
    manifest.json   what the run is: config, fingerprint of the input, plan, versions; sealed
    events.jsonl    what happened, one event per line
    ...             shards or checkpoints, each written whole or not at all

A directory is opened again only for the same config and input; otherwise it is refused, and the error says
what changed. Killing the writer at any instant leaves a directory that opens.
"""

import contextlib
import fcntl
import json
import os
import platform
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch

from ..base import version
from ..base.errors import ChangedError, CorruptError, LockedError, RunDirError, StorageError
from . import fingerprint
from .events import BatchDone, Finished, JsonLines, Started, read_log_end
from .files import TEMPORARY, is_temporary, read_sealed, storage_error, write_sealed

LOCK, MANIFEST, LOG = "lock", "manifest.json", "events.jsonl"
_KIND = "brimful.run/1"
_ATTEMPTS = 10  # to lock a directory


class RunDir(contextlib.AbstractContextManager["RunDir"]):
    """An open run directory; a context manager. Make one with `RunDir.open`.

    Attributes:
        path: the directory.
        resumed: whether it held this run already.
        identity: a digest of what the run is; files inside carry it, so that none from another run is taken.
    """

    def __init__(self, path: Path, lock: int, manifest: dict[str, Any], resumed: bool) -> None:
        self.path, self._lock, self.manifest, self.resumed = path, lock, manifest, resumed
        self.identity = fingerprint.of([manifest["work"], _text(manifest["config"]), manifest["input"]])
        self.log = JsonLines(path / LOG)

    @classmethod
    def open(
        cls, path: str | Path, *, work: str, config: dict[str, Any], input: str | None, resume: bool = True
    ) -> Self:
        """Makes the directory, or opens one that holds the same run, and locks it.

        Args:
            path: the directory; its parents are made too.
            work: what kind of work it is, such as "map" or "gp fit".
            config: the settings that decide the result, as JSON values.
            input: the fingerprint of the input; None where the config says it all.
            resume: False refuses a directory that holds a run already, even the same one.

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
            lock = _take_lock(path)
        except OSError as error:
            raise storage_error(path, error) from error
        try:
            wanted = {"work": work, "config": json.loads(_text(config)), "input": input}
            stored = _manifest(path)
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
            return cls(path, lock, stored or _new_manifest(path, wanted), resumed=stored is not None)
        except BaseException as error:
            os.close(lock)
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
            os.close(self._lock)
            self._lock = -1

    def __exit__(self, *error: object) -> None:
        self.close()


def _text(config: dict[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)


def _take_lock(path: Path) -> int:
    handle = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(handle, 0)
                owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
                os.write(handle, json.dumps(owner).encode())
                return handle
            time.sleep(0.02)  # `inspect` holds it for an instant, to see whether it can
        raise LockedError(
            f"{path} is being written by {_owner(path)}. Wait for it to end, stop it, or choose another directory."
        )
    except BaseException:
        os.close(handle)
        raise


def _owner(path: Path) -> str:
    try:
        owner = json.loads((path / LOCK).read_text())
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(owner["since"]))
        return f"process {owner['pid']} on {owner['host']} since {since}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _manifest(path: Path) -> dict[str, Any] | None:
    if not (path / MANIFEST).exists():
        return None
    try:
        return read_sealed(path / MANIFEST, _KIND)
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
    """

    path: str
    work: str
    state: str
    created: float | None
    done: int
    items: int | None
    bad: int


def inspect(path: Path) -> RunInfo:
    """Reads a run directory's state without disturbing it."""
    try:
        manifest = read_sealed(path / MANIFEST, _KIND)
    except CorruptError:
        return RunInfo(str(path), "?", "damaged", None, 0, None, 0)
    done, items, bad, state = 0, None, 0, "killed"
    running = _is_locked(path)  # before the log: a run that ends in between has said so there
    for event in read_log_end(path / LOG) if (path / LOG).exists() else []:
        match event:
            case Started():
                done, items, state = event.done, event.items, "killed"
            case BatchDone():
                done, bad, state = event.done, event.flagged, "killed"
            case Finished():
                done, bad, state = event.done, event.bad, event.state
    items = manifest.get("items") if items is None else items
    state = "running" if running else state
    return RunInfo(str(path), manifest["work"], state, manifest["created"], done, items, bad)


def find(root: Path, depth: int = 3) -> list[RunInfo]:
    """All run directories under a folder, newest first."""
    manifests = (file for level in range(depth + 1) for file in root.glob("*/" * level + MANIFEST))
    return sorted((inspect(file.parent) for file in manifests), key=lambda run: -(run.created or 0))


def _is_locked(path: Path) -> bool:
    try:
        handle = os.open(path / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
