"""Files that are whole or absent: atomic writes, and small JSON files sealed with a checksum."""

import errno
import hashlib
import json
import mmap
import os
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..base.errors import CorruptError, StorageError

TEMPORARY = ".part"
"""The ending of a file still being written."""


def write_atomic(path: Path, content: bytes | Callable[[Path], None]) -> None:
    """Writes a file so that a reader, or a crash at any instant, sees the old one or the new one, never half.

    Args:
        path: where the file goes; its folder exists.
        content: the bytes, or a function that writes them to the temporary path it is given.
    """
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}{TEMPORARY}")
    try:
        if callable(content):
            content(temporary)
        else:
            temporary.write_bytes(content)
        sync(temporary)
        temporary.rename(path)
        sync(path.parent)
    except OSError as error:
        raise storage_error(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def is_temporary(path: Path) -> bool:
    """Whether the name is one that `write_atomic` gives to a file still being written; such a file is left
    behind by a killed writer."""
    return re.search(rf"\.[0-9a-f]{{8}}{re.escape(TEMPORARY)}$", path.name) is not None


def storage_error(path: Path, error: OSError) -> StorageError:
    """The error to show for a write that the operating system refused."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = "the disk is full. Free some space and run the same command again: finished work is kept"
    elif error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        advice = "writing there is not allowed. Check its permissions, or choose another folder"
    else:
        advice = f"{error.strerror or error}. Mend that and run the same command again: finished work is kept"
    return StorageError(f"cannot write {path}: {advice}")


def truncate_torn_line(path: Path) -> None:
    """Takes the half-written last line off a file of lines, left there by a crash."""
    if path.exists() and path.stat().st_size:
        with path.open("rb+") as file:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                end = content.rfind(b"\n") + 1
            file.truncate(end)


def sync(path: Path) -> None:
    """Waits until a file, or the list of a folder's files, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_sealed(path: Path, kind: str, body: dict[str, Any]) -> None:
    """Writes a small JSON file that `read_sealed` can vouch for."""
    write_atomic(path, json.dumps({"kind": kind, "seal": _seal(kind, body), "body": body}, indent=1).encode())


def read_sealed(path: Path, kind: str) -> dict[str, Any]:
    """Reads what `write_sealed` wrote. Any damage, or a file of another kind, is a `CorruptError`."""
    try:
        outer = json.loads(path.read_bytes())
        intact = outer["kind"] == kind and outer["seal"] == _seal(kind, outer["body"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptError(f"{path} cannot be read as {kind}: {error!r}") from error
    if not intact:
        raise CorruptError(f"{path} is damaged, or is not {kind}: its checksum does not match its content")
    return outer["body"]


def _seal(kind: str, body: Any) -> str:
    return hashlib.sha256((kind + json.dumps(body, sort_keys=True)).encode()).hexdigest()


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
