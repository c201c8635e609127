"""Arrays: .npy and .npz. Their headers say a type and a shape, which must be plain numbers and what the file holds."""

import io
import math
import zipfile
from tokenize import TokenError
from typing import BinaryIO

import numpy as np

from .refusal import refused
from .zip_directory import DAMAGE, check_zip_directory

_FORMATS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_KINDS = "biufc"  # booleans, integers, floats, complex numbers
_UNREADABLE = (KeyError, ValueError, EOFError, OSError, TypeError, RecursionError, MemoryError, SyntaxError, TokenError)
_LARGEST_HEADER = 10_000
_MOST_ARRAYS = 1000


def check_npy(file: BinaryIO, size: int, name: str) -> None:
    """One array, whose bytes are all there, and no more."""
    wanted = _header_bytes(file, name)
    if wanted != size:
        raise refused(name, f"its header asks for {wanted} bytes and it has {size}; write it again with np.save")


def check_npz(file: BinaryIO, size: int, name: str, unpacked: int) -> None:
    """An archive of arrays and nothing else, of at most `unpacked` bytes in all."""
    try:
        check_zip_directory(file, size, name)
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if not 0 < len(members) <= _MOST_ARRAYS:
                raise refused(name, f"it holds {len(members)} arrays; send 1 to {_MOST_ARRAYS}")
            total = sum(member.file_size for member in members)
            if total > unpacked:
                raise refused(name, f"its arrays take {total} bytes, and {unpacked} are allowed; send fewer")
            for member in members:
                inner = f"{member.filename[:100]!r} in {name}"
                if not member.filename.endswith(".npy") or member.flag_bits & 1:
                    raise refused(name, f"{inner} is no plain .npy array; write it again with np.savez")
                with archive.open(member) as opened:
                    head = io.BytesIO(opened.read(_LARGEST_HEADER + 100))
                check_npy(head, member.file_size, inner)
    except DAMAGE as error:
        raise refused(name, f"it cannot be read as an archive of arrays ({error}); write it with np.savez") from error


def _header_bytes(file: BinaryIO, name: str) -> int:
    """How many bytes the file should have, by its header."""
    try:
        read = _FORMATS[np.lib.format.read_magic(file)]
        shape, _, dtype = read(file, max_header_size=_LARGEST_HEADER)
    except _UNREADABLE as error:
        raise refused(name, f"its header cannot be read ({str(error)[:200]}); write it with np.save") from error
    if dtype.hasobject:
        raise refused(name, "it holds Python objects, which only a pickle could bring back; save arrays of numbers")
    if dtype.kind not in _KINDS:
        raise refused(name, f"it is of type {str(dtype)[:100]}; save arrays of numbers")
    if any(length < 0 for length in shape):
        raise refused(name, f"its shape is {str(shape)[:100]}; write it again with np.save")
    return file.tell() + math.prod(shape) * dtype.itemsize
