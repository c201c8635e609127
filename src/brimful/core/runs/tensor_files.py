"""Files of tensors, in a format that runs no code when it is read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from ..base.errors import InputError
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
