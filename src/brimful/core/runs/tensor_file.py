"""Tensors as one safetensors file: no code runs when it is read."""

import errno
import hashlib
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from .files import sync


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Writes tensors, on disk when this returns. Those that share memory are written each by itself."""
    seen: set[int] = set()
    flat = {}
    for name, tensor in tensors.items():
        here = tensor.detach().cpu().contiguous()
        if here.numel() and here.untyped_storage().data_ptr() in seen:
            here = here.clone()
        seen.add(here.untyped_storage().data_ptr())
        flat[name] = here
    try:
        safetensors.torch.save_file(flat, path)
        sync(path)
    except SafetensorError as error:
        full = "os error 28" in str(error) or "code: 28" in str(error)
        raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from error


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
