"""NumPy's files: .npy mapped, so that only the rows that are read are loaded; .npz read whole. Never a pickle."""

import functools
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.base.errors import InputError
from ..core.base.pytree import as_tensor
from .array_dataset import DeferredDataset, shared_length
from .dataset import Field, chosen


def mapped(path: Path) -> np.ndarray:
    """A .npy file's array, on disk until its rows are read."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise _unreadable(path, error) from error


def archive(path: Path, columns: Sequence[str] | None) -> DeferredDataset:
    """A .npz file's arrays as columns; their form is read from the headers alone."""
    try:
        with zipfile.ZipFile(path) as file:
            members = [name.removesuffix(".npy") for name in file.namelist() if name.endswith(".npy")]
            names = chosen(members, columns, str(path))
            heads = {name: _head(file, name) for name in names}
    except (zipfile.BadZipFile, ValueError, EOFError, OSError) as error:
        raise _unreadable(path, error) from error
    if not heads:
        raise InputError(f"{path} holds no arrays; save some with np.savez")
    fields = {}
    for name, (shape, dtype) in heads.items():
        if dtype.hasobject:
            raise _unreadable(path, f"{name!r} holds Python objects, which only a pickle could bring back")
        if not shape:
            raise InputError(f"{path}: {name!r} is a single number, not one row per sample; leave it out with columns=")
        fields[name] = Field(as_tensor(np.empty(0, dtype), name).dtype, tuple(shape[1:]))
    samples = shared_length({name: shape[0] for name, (shape, _) in heads.items()})
    return DeferredDataset(fields, samples, functools.partial(_read, path, names))


def _head(file: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], np.dtype]:
    with file.open(f"{name}.npy") as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(member)
        return shape, dtype


def _read(path: Path, names: Sequence[str]) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in names}
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, KeyError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Any) -> InputError:
    return InputError(
        f"{path} cannot be read: {error}. It may be damaged, cut short or hold Python objects; write it again from "
        "numeric arrays with np.save or np.savez"
    )
