"""Pickles in which a tensor is an array: its own takes far longer, whatever its size, and copies the numbers again and
again. Large arrays may lie beside the pickle, in their own memory."""

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

LARGE = 65_536
"""Bytes of an array that is worth a buffer of its own."""


class TensorPickler:
    """What a pickler does with tensors; to be inherited from before the pickler itself."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is torch.Tensor and _is_plain(obj):
            numbers = obj.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
            return _tensor, (numbers, obj.dtype, tuple(obj.shape))
        inherited: Callable[[Any], Any] | None = getattr(super(), "reducer_override", None)
        return NotImplemented if inherited is None else inherited(obj)


class LargeBuffers:
    """Takes the memory of large arrays out of a pickle, as its `buffer_callback`; small ones stay in it."""

    def __init__(self) -> None:
        self.views: list[memoryview] = []

    def __call__(self, buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < LARGE:
            return True
        self.views.append(view)
        return False


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is nothing but numbers in host memory."""
    dense = tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
    return dense and not (tensor.requires_grad or tensor.is_conj() or tensor.is_neg())


def _tensor(numbers: np.ndarray, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    if numbers.flags.writeable:
        flat = torch.from_numpy(numbers)
    else:
        with warnings.catch_warnings():  # torch knows no memory that is read only; nobody writes to it
            warnings.simplefilter("ignore", UserWarning)
            flat = torch.from_numpy(numbers)
    return flat.view(dtype).reshape(shape)
