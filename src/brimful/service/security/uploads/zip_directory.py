"""The directory at the end of a zip file, which is read whole when the file is opened: only one of a sane size."""

import struct
import zipfile
import zlib
from typing import BinaryIO

from .refusal import refused

DAMAGE = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError, ValueError)
"""What reading a damaged zip file raises."""

MOST_MEMBERS = 10_000
_LARGEST_DIRECTORY = 4 * 2**20
_END = struct.Struct("<4s4H2LH")  # the last record of a zip file, before its comment
_LARGE = b"PK\x06\x07"  # of a zip file of more than 4 GB, or whose directory says so


def check_zip_directory(file: BinaryIO, size: int, name: str) -> None:
    """Refuses a file whose directory is too large to be read, before it is."""
    file.seek(max(0, size - 2**16 - _END.size - 20))
    tail = file.read()
    place = tail.rfind(b"PK\x05\x06")
    if place < 0 or len(tail) - place < _END.size:
        raise refused(name, "it is no zip file; make it again")
    *_, members, length, _start, _comment = _END.unpack_from(tail, place)
    if tail[max(0, place - 20) : place].startswith(_LARGE) or members > MOST_MEMBERS or length > _LARGEST_DIRECTORY:
        raise refused(name, f"it has more than {MOST_MEMBERS} files, or more than 4 GB; send it in several parts")
    file.seek(0)
