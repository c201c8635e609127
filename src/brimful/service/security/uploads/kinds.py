"""The kinds of files that are taken, by their ending, and the check of each."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from .numpy_files import check_npy, check_npz
from .parquet_files import check_parquet
from .refusal import refused
from .safetensors_files import check_safetensors
from .text_files import check_json, check_text

Check = Callable[[BinaryIO, int, str, int], None]
"""(the file, its bytes, its name for messages, the most bytes it may have once unpacked)."""


def _plain(check: Callable[[BinaryIO, int, str], None]) -> Check:
    """A check of a kind that is never larger than its file."""
    return lambda file, size, name, unpacked: check(file, size, name)


KINDS: dict[str, Check] = {
    ".csv": _plain(check_text),
    ".json": _plain(check_json),
    ".jsonl": _plain(check_text),
    ".npy": _plain(check_npy),
    ".npz": check_npz,
    ".parquet": check_parquet,
    ".py": _plain(check_text),
    ".safetensors": _plain(check_safetensors),
    ".txt": _plain(check_text),
}


def kind_of(name: str) -> str | None:
    """The ending of a file that is taken as it is; None for any other."""
    ending = Path(name).suffix.lower()
    return ending if ending in KINDS else None


def check_file(path: Path, name: str, unpacked: int) -> None:
    """Looks at a file before it is kept.

    Args:
        path: where it lies.
        name: what it is called; its ending says what it must be.
        unpacked: the most bytes that it may have once it is decompressed.

    Raises:
        Invalid: it is not what its ending says, or would harm who reads it.
    """
    ending = kind_of(name)
    if ending is None:
        raise refused(name, f"such files are not taken; send {', '.join(sorted(KINDS))}, or a .zip of them")
    with path.open("rb") as file:
        KINDS[ending](file, path.stat().st_size, name, unpacked)
