"""CIFAR-10 from its python files, which are pickles: read by an unpickler that makes dicts, bytes and arrays only.

A pickle names the functions that rebuild it, and the standard unpickler calls whatever it names. This one calls its own
replacements of the few that the format needs, and refuses every other name.
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
    """Training and test images, (n, 3072) uint8: channel after channel."""
    path = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    missing = [name for name in (*TRAIN, TEST) if not (path / name).is_file()]
    if missing:
        raise InputError(
            f"CIFAR-10 is not in {folder}: {missing[0]} is missing. Fetch cifar-10-python.tar.gz from "
            f"https://www.cs.toronto.edu/~kriz/cifar.html and unpack it there, so that {folder / FOLDER / TRAIN[0]} "
            "exists, or name its folder with --data-dir"
        )
    return np.concatenate([read_batch(path / name) for name in TRAIN]), read_batch(path / TEST)


def read_batch(path: Path) -> np.ndarray:
    """The images of one file."""
    try:
        with path.open("rb") as file:
            content = _Unpickler(file, encoding="bytes").load()
    except InputError:
        raise
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise InputError(f"{path} cannot be read as a batch of CIFAR-10: {error}; fetch it again") from error
    images = content.get(b"data", content.get("data")) if isinstance(content, dict) else None
    images = getattr(images, "array", images)
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim != 2 or images.shape[1] != _PIXELS:
        raise InputError(f"{path} holds no images of {_PIXELS} bytes under 'data'; fetch it again")
    return images


class _Array:
    """Replaces a pickled array: only plain bytes in a known layout become numbers."""

    def __init__(self, *_: Any) -> None:
        self.array: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran_order, content = state
        if not isinstance(dtype, _Dtype) or dtype.name not in ("u1", "|u1") or not isinstance(content, bytes):
            raise InputError("an array in the file is not of bytes; it is no batch of CIFAR-10. Fetch it again")
        self.array = np.frombuffer(content, np.uint8).reshape(shape, order="F" if fortran_order else "C")


class _Dtype:
    """Replaces a pickled dtype."""

    def __init__(self, name: Any, *_: Any) -> None:
        self.name = name.decode("latin1") if isinstance(name, bytes) else name

    def __setstate__(self, state: Any) -> None:
        pass


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """Python 3 pickles bytes for the old protocol as encoded text."""
    return text.encode("latin1")


class _Unpickler(pickle.Unpickler):
    _REPLACEMENTS: dict[tuple[str, str], Any] = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"): _Array,
        ("numpy._core.multiarray", "_reconstruct"): _Array,
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Dtype,
        ("_codecs", "encode"): _encode,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._REPLACEMENTS:
            raise InputError(
                f"the file asks for {module}.{name}, which no batch of CIFAR-10 needs and which was not run; "
                "fetch the files from their own site"
            )
        return self._REPLACEMENTS[module, name]
