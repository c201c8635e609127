"""Text: .csv, .txt, .py, .json and .jsonl, in UTF-8. A program is text here too: it is stored, and never imported."""

import codecs
import json
from typing import BinaryIO

from .refusal import refused

_BLOCK = 2**20
_LARGEST_JSON = 64 * 2**20


def check_text(file: BinaryIO, size: int, name: str) -> None:
    """It is text: UTF-8 without the characters that only other kinds of files have."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while block := file.read(_BLOCK):
            if "\0" in decoder.decode(block):
                raise refused(name, "it holds bytes that no text has; send a text file, in UTF-8")
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise refused(name, f"it is no text in UTF-8 ({error.reason}); write it again in UTF-8") from error


def check_json(file: BinaryIO, size: int, name: str) -> None:
    """It can be parsed."""
    if size > _LARGEST_JSON:
        raise refused(name, f"it has {size} bytes, and JSON may have {_LARGEST_JSON}; send it as Parquet or .jsonl")
    try:
        json.loads(file.read())
    except (ValueError, RecursionError) as error:
        raise refused(name, f"it is no JSON ({str(error)[:200]}); mend it") from error
