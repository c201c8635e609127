"""The caption of a picture of a report, read from its PNG file."""

from pathlib import Path

_HEAD = b"\x89PNG\r\n\x1a\n"
_KEY = b"Description"
_LONGEST = 2000  # bytes of a caption
_TEXTS = (b"tEXt", b"iTXt")


def caption_of(path: Path) -> str:
    """What a picture shows, in a sentence; empty where its file does not say, or cannot be read."""
    try:
        with path.open("rb") as file:
            if file.read(len(_HEAD)) != _HEAD:
                return ""
            while len(head := file.read(8)) == 8:
                size, kind = int.from_bytes(head[:4], "big"), head[4:]
                if kind == b"IDAT":  # texts come before the pixels
                    return ""
                if kind not in _TEXTS or size > _LONGEST:
                    file.seek(size + 4, 1)
                    continue
                key, _, text = file.read(size).partition(b"\x00")
                file.seek(4, 1)
                if key == _KEY:
                    return text.decode("latin-1") if kind == b"tEXt" else _international(text)
    except OSError:
        pass
    return ""


def _international(text: bytes) -> str:
    """An uncompressed text of an iTXt chunk, after its key: flags, language and translated key come first."""
    return text[2:].split(b"\x00", 2)[-1].decode(errors="replace")
