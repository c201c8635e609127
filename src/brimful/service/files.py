"""The server's folders: a directory per job, one per upload. Nothing that a client names leads out of them.

STATE/jobs/<id>/       see `child.job_dir`
STATE/uploads/<id>/    the file, or what was in an archive
STATE/datasets/        see `dataset_files`
"""

import contextlib
import hashlib
import mimetypes
import shutil
import time
from pathlib import Path
from typing import BinaryIO

from ..core.runs.files import is_temporary
from .child.job_dir import LOG, RUN
from .errors import FieldProblem, Invalid, NotFound, Unavailable
from .jobs.job import Artifact, Upload, new_id
from .path_names import UNPACKED, path_names
from .security.names import file_name_fault, inside
from .security.uploads import ARCHIVE, check_file, unpack

_BLOCK = 1 << 20
_MOST_ARTIFACTS = 10_000
_KINDS = {
    ".parquet": "application/vnd.apache.parquet",
    ".safetensors": "application/octet-stream",
    ".jsonl": "application/x-ndjson",
    ".npy": "application/octet-stream",
}
_PARTIAL = ".partial"


class Files:
    """Jobs' and uploads' files in the folder of a server's state.

    Attributes:
        named: a text with what clients call these files in place of their paths.
    """

    def __init__(self, state: Path, upload_limit: int) -> None:
        self._state, self._limit = state, upload_limit
        self.named = path_names(state)

    def prepare(self) -> None:
        """Makes the folders, private to this user, and removes what was being written when a server was killed."""
        self._state.mkdir(parents=True, exist_ok=True)
        for name in ("jobs", "uploads"):
            (self._state / name).mkdir(mode=0o700, exist_ok=True)
        for folder in (self._state / "uploads").glob(f"*{_PARTIAL}"):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self._state / "datasets").glob("*"):
            if is_temporary(file):
                file.unlink(missing_ok=True)

    def job(self, id: str) -> Path:
        return self._state / "jobs" / id

    def delete_job(self, id: str) -> None:
        shutil.rmtree(self.job(id), ignore_errors=True)

    def artifacts(self, id: str) -> list[Artifact]:
        """The files of a job's run directory, by name; links, and what is being written, are left out."""
        root, found = self.job(id) / RUN, []
        for path in sorted(root.rglob("*"))[:_MOST_ARTIFACTS]:
            name = path.relative_to(root).as_posix()
            with contextlib.suppress(OSError):
                if inside(root, name) is not None and not name.endswith(".part"):
                    status = path.stat()
                    found.append(
                        Artifact(
                            name=name, bytes=status.st_size, modified=status.st_mtime, media_type=_media_type(path)
                        )
                    )
        return found

    def artifact(self, id: str, name: str) -> Path:
        path = inside(self.job(id) / RUN, name)
        if path is None:
            raise NotFound(f"the job has no file {name[:200]!r}; its artifacts list those there are")
        return path

    def log(self, id: str, after: int, limit: int) -> tuple[bytes, int]:
        """Bytes of a log from one on, and the one after them; a negative one counts from the end."""
        try:
            with (self.job(id) / LOG).open("rb") as file:
                start = after if after >= 0 else max(0, file.seek(0, 2) + after)
                file.seek(start)
                content = file.read(max(0, limit))
        except FileNotFoundError:
            content, start = b"", max(0, after)
        return content, start + len(content)

    def locate(self, kind: str, id: str, name: str | None) -> Path:
        """The path of a reference in a config.

        Raises:
            NotFound: it leads nowhere.
        """
        if kind == "upload":
            folder = self._state / "uploads" / id
            whole = next(iter(folder.glob("*")), None)  # the file, or the folder of an archive
            folder = folder / UNPACKED if whole is not None and whole.name == UNPACKED else folder
        else:
            folder = whole = self.job(id) / RUN
        path = whole if name is None else _inside(folder, name)
        path = path if path is not None and path.exists() else None
        if path is None:
            what = f"{kind}:{id}" + (f"/{name}" if name else "")
            raise NotFound(f"there is no {what[:300]}; the list of {kind}s has those there are")
        return path

    def upload(self, name: str, stream: BinaryIO) -> Upload:
        """Keeps a file.

        Raises:
            Invalid: its name, size or content is refused; nothing is left behind.
        """
        if fault := file_name_fault(name):
            raise Invalid(FieldProblem("name", f"name {fault}"))
        id = new_id()
        partial = self._state / "uploads" / f"{id}{_PARTIAL}"
        partial.mkdir(mode=0o700)
        try:
            size, digest = self._receive(partial / name, name, stream)
            if name.lower().endswith(ARCHIVE):
                unpack(partial / name, name, partial / UNPACKED, self._limit)
                (partial / name).unlink()
            else:
                check_file(partial / name, name, self._limit)
            partial.rename(self._state / "uploads" / id)
        except OSError as error:
            raise Unavailable(
                f"the file cannot be kept: {error.strerror or error}. Free some space, try again"
            ) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return Upload(id=id, name=name, bytes=size, sha256=digest, created=time.time())

    def _receive(self, path: Path, name: str, stream: BinaryIO) -> tuple[int, str]:
        size, digest = 0, hashlib.sha256()
        with path.open("xb") as file:
            while block := stream.read(_BLOCK):
                size += len(block)
                if size > self._limit:
                    message = f"{name} has more than {self._limit} bytes, the most that is taken; send a smaller file"
                    raise Invalid(FieldProblem("body", message))
                digest.update(block)
                file.write(block)
        return size, digest.hexdigest()

    def delete_upload(self, id: str) -> None:
        shutil.rmtree(self._state / "uploads" / id, ignore_errors=True)


def _inside(folder: Path, name: str) -> Path | None:
    """A file or a folder inside another."""
    path = inside(folder, name)
    if path is None and (folder / name).is_dir() and (folder / name).resolve().is_relative_to(folder.resolve()):
        path = folder / name
    return path


def _media_type(path: Path) -> str:
    return _KINDS.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
