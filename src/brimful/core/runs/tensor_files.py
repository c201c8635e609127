"""Files of tensors, in a format that runs no code when it is read."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from ..base.errors import CorruptError, InputError
from .files import sync

_SAFETENSORS = {dtype: name for name, dtype in safetensors.torch._TYPES.items()}


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Writes tensors in the safetensors format, on disk when this returns. One is in host memory at a time: the
    library's own writer makes a copy of all of them."""
    header: dict[str, Any] = {}
    end = 0
    for name, tensor in sorted(tensors.items(), key=lambda part: (-part[1].element_size(), part[0])):  # for alignment
        start, end = end, end + tensor.numel() * tensor.element_size()
        if tensor.dtype not in _SAFETENSORS:
            raise InputError(f"{name} is of dtype {tensor.dtype}, which cannot be stored; convert it first")
        header[name] = {"dtype": _SAFETENSORS[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in header:
            flat = tensors[name].detach().cpu().contiguous().reshape(-1)
            file.write(flat.view(torch.uint8).numpy().data)
    sync(path)


class TensorFile(Mapping[str, Tensor]):
    """The tensors of a file in the safetensors format, read anew whenever one is asked for, into memory of its own. The
    library's own reader maps the file, and what is kept of it then keeps all of it.

    Raises:
        CorruptError: the file is not of that format.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                if length > path.stat().st_size:
                    raise ValueError(f"a header of {length} bytes")
                self._header: dict[str, Any] = json.loads(file.read(length))
            self._header.pop("__metadata__", None)
            self._start = 8 + length
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise CorruptError(f"{path} cannot be read: {error}") from error

    def __getitem__(self, name: str) -> Tensor:
        entry = self._header[name]
        try:
            tensor = torch.empty(entry["shape"], dtype=safetensors.torch._TYPES[entry["dtype"]])
            begin, end = entry["data_offsets"]
            with self._path.open("rb") as file:
                file.seek(self._start + begin)
                read = file.readinto(tensor.reshape(-1).view(torch.uint8).numpy().data)
            if not read == end - begin == tensor.numel() * tensor.element_size():
                raise ValueError(f"{name} has {read} bytes and not {end - begin}")
        except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise CorruptError(f"{self._path} cannot be read: {error}") from error
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._header)

    def __len__(self) -> int:
        return len(self._header)
