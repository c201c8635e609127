"""Archives: .zip. Unpacked into a new folder, with nothing in it but plain files of the kinds that are taken: no links,
no path that leads out, and no more bytes than are allowed, whatever the headers say."""

import shutil
import stat
import zipfile
from pathlib import Path, PurePosixPath

from ..names import file_name_fault
from .kinds import check_file
from .refusal import refused
from .zip_directory import DAMAGE, MOST_MEMBERS, check_zip_directory

ARCHIVE = ".zip"
_DEEPEST = 16
_BLOCK = 2**20


def unpack(path: Path, name: str, folder: Path, unpacked: int) -> int:
    """Unpacks an archive into a folder, which it makes, and removes again where anything in the archive is refused.

    Args:
        unpacked: the most bytes that all files may have together.

    Returns:
        The bytes of all files.

    Raises:
        Invalid: something in it is not taken; nothing is left behind.
    """
    folder.mkdir()
    try:
        with path.open("rb") as file:
            check_zip_directory(file, path.stat().st_size, name)
        with zipfile.ZipFile(path) as archive:
            return _unpack(archive, name, folder, unpacked)
    except BaseException as error:
        shutil.rmtree(folder)
        if isinstance(error, DAMAGE):
            raise refused(name, f"it cannot be read as an archive ({str(error)[:200]}); make it again") from error
        raise


def _unpack(archive: zipfile.ZipFile, name: str, folder: Path, unpacked: int) -> int:
    total, seen = 0, set()
    for member in archive.infolist():
        if member.is_dir():
            continue
        if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG) or member.flag_bits & 1:
            raise refused(name, f"{member.filename[:100]!r} is a link, a device or encrypted; pack plain files")
        target = folder.joinpath(*_parts(member.filename, name))
        if str(target).lower() in seen or len(seen) >= MOST_MEMBERS:
            raise refused(name, f"{member.filename[:100]!r} is there twice; make it again")
        seen.add(str(target).lower())
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as source, target.open("xb") as out:
            while block := source.read(_BLOCK):
                total += len(block)
                if total > unpacked:
                    raise refused(name, f"it holds more than {unpacked} bytes; send less")
                out.write(block)
        check_file(target, target.name, unpacked)
    if not seen:
        raise refused(name, "it holds no files; send some")
    return total


def _parts(member: str, name: str) -> tuple[str, ...]:
    parts = PurePosixPath(member).parts
    if not 0 < len(parts) <= _DEEPEST or any(file_name_fault(part) for part in parts):
        raise refused(name, f"{member[:100]!r} is no name for a file in a folder; pack files by relative names")
    return parts
