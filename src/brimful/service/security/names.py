"""Names that people give to jobs, datasets and files: refused, never rewritten, so that what is stored is what was
sent."""

import unicodedata
from pathlib import Path, PurePosixPath

LONGEST = 200
"""Characters of a name."""

_INVISIBLE = {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}  # control characters, lone surrogates, unassigned, line separators
_DIRECTION = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C}  # a name may not turn a line over


def fault_of(text: str, longest: int = LONGEST) -> str | None:
    """What is wrong with a name, and what to do; None where it is good.

    Example:
        >>> fault_of("night run 3"), fault_of(" ")
        (None, 'is empty; give at least one visible character')
    """
    if not text.strip():
        return "is empty; give at least one visible character"
    if len(text) > longest:
        return f"has {len(text)} characters; use at most {longest}"
    for place, character in enumerate(text):
        if unicodedata.category(character) in _INVISIBLE or ord(character) in _DIRECTION:
            return (
                f"has the character U+{ord(character):04X} at position {place}, which cannot be seen; use letters, "
                "digits, spaces and punctuation"
            )
    return None


def file_name_fault(name: str) -> str | None:
    """What is wrong with the name of a file that is to be stored, and what to do; None where it is good."""
    if fault := fault_of(name, 128):
        return fault
    if "/" in name or "\\" in name:
        return "has a slash; send the file's name without its folders"
    if name.startswith((".", "-", "~")) or name != name.strip() or name.endswith("."):
        return "begins or ends with a character that a file's name may not; begin with a letter or a digit"
    if len(name.encode()) > 200:
        return "takes more than 200 bytes; use a shorter one"
    return None


def inside(folder: Path, name: str) -> Path | None:
    """The file of that relative name in a folder; None where there is none, where the name leads out of it, also by a
    symbolic link, or where it is no plain file."""
    parts = PurePosixPath(name).parts
    if not parts or "\\" in name or "\0" in name or any(part in ("..", "/") or part.startswith(".") for part in parts):
        return None
    root = folder.resolve()
    try:
        path = root.joinpath(*parts)
        if path.resolve(strict=True) != path or not path.is_file():
            return None
    except (OSError, ValueError, RuntimeError):
        return None
    return path
