"""CIFAR-10 from its python files, which are pickles: read by a reader that makes a dict, bytes and arrays, and no more.

A pickle names the functions that rebuild it, and the usual reader calls whatever it names. This one calls its own
stand-ins for the few that the format needs, and refuses every other name.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from ...core.base.errors import InputError

FOLDER = "cifar-10-batches-py"
TRAIN, TEST = tuple(f"data_batch_{number}" for number in range(1, 6)), "test_batch"
SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32


def read(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images for training and for test, (n, 3072) uint8: all of a colour, then the next."""
    place = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    missing = [name for name in (*TRAIN, TEST) if not (place / name).is_file()]
    if missing:
        raise InputError(
            f"CIFAR-10 is not in {folder}: {missing[0]} is missing. Fetch cifar-10-python.tar.gz from "
            f"https://www.cs.toronto.edu/~kriz/cifar.html and unpack it there, so that {folder / FOLDER / TRAIN[0]} "
            "exists, or name its folder with --data-dir"
        )
    return np.concatenate([read_batch(place / name) for name in TRAIN]), read_batch(place / TEST)


def read_batch(path: Path) -> np.ndarray:
    """The images of one file."""
    try:
        with path.open("rb") as file:
            found = _Reader(file, encoding="bytes").load()
    except InputError:
        raise
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise InputError(f"{path} cannot be read as a batch of CIFAR-10: {error}; fetch it again") from error
    images = found.get(b"data", found.get("data")) if isinstance(found, dict) else None
    if isinstance(images, _Array):
        images = images.made
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim != 2 or images.shape[1] != _PIXELS:
        raise InputError(f"{path} holds no images of {_PIXELS} bytes under 'data'; fetch it again")
    return images


class _Array:
    """What a pickled array is rebuilt as: only plain bytes in a known layout become numbers."""

    def __init__(self, *_: Any) -> None:
        self.made: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, in_columns, content = state
        if not isinstance(kind, _Kind) or kind.name not in _Kind.KNOWN or not isinstance(content, bytes):
            raise InputError("an array in the file is not of bytes; it is no batch of CIFAR-10. Fetch it again")
        flat = np.frombuffer(content, np.uint8)
        self.made = flat.reshape(shape, order="F" if in_columns else "C")


class _Kind:
    """What a pickled number format is rebuilt as."""

    KNOWN = ("u1", "|u1")

    def __init__(self, name: Any, *_: Any) -> None:
        self.name = name.decode("latin1") if isinstance(name, bytes) else name

    def __setstate__(self, state: Any) -> None:
        pass


def _array(*_: Any) -> _Array:
    return _Array()


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """How Python 3 writes bytes into the old format."""
    return text.encode("latin1")


class _Reader(pickle.Unpickler):
    _KNOWN: dict[tuple[str, str], Any] = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"): _array,
        ("numpy._core.multiarray", "_reconstruct"): _array,
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Kind,
        ("_codecs", "encode"): _encode,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._KNOWN:
            raise InputError(
                f"the file asks for {module}.{name}, which no batch of CIFAR-10 needs and which was not run; "
                "fetch the files from their own site"
            )
        return self._KNOWN[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise InputError("the file refers to objects outside of it, which no batch of CIFAR-10 does; fetch it again")
