"""Values on their way through an object store: pickled, with the numbers of large arrays beside the rest.

Functions, also lambdas and those of the script itself, go by value (cloudpickle). Arrays and tensors that are read only
are not copied where they arrive: all workers of a machine see the same memory.
"""

import io
import pickle
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...core.base.extras import require

_LARGE = 65_536  # bytes of a tensor that is worth a buffer of its own


@dataclass(frozen=True, slots=True)
class Packed:
    """A pickled value.

    Attributes:
        content: the pickle, without the buffers.
        buffers: the numbers of its arrays, where they are shared.
    """

    content: bytes
    buffers: tuple[np.ndarray, ...] = ()

    def unpack(self) -> Any:
        return pickle.loads(self.content, buffers=self.buffers)


def pack(value: Any, shared: bool = False) -> Packed:
    """A value that can be sent to any worker.

    Args:
        shared: its arrays are only ever read, so that workers of one machine may have the same memory.
    """
    cloudpickle = require("ray", "ray.cloudpickle")
    if not shared:
        return Packed(cloudpickle.dumps(value, protocol=5))

    class Pickler(cloudpickle.CloudPickler):
        def reducer_override(self, obj: Any) -> Any:
            if type(obj) is torch.Tensor and _plain(obj):
                numbers = obj.detach().reshape(-1).view(torch.uint8).numpy()
                return _tensor, (numbers, obj.dtype, tuple(obj.shape))
            return super().reducer_override(obj)

    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(value)
    return Packed(stream.getvalue(), tuple(np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers))


def _plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is worth a buffer, and is nothing but its numbers."""
    dense = tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.requires_grad
    return dense and not tensor.is_quantized and tensor.is_contiguous() and tensor.nbytes >= _LARGE


def _tensor(numbers: np.ndarray, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    with warnings.catch_warnings():  # it is read only, and torch knows no such thing; nobody writes to it
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(numbers).view(dtype).reshape(shape)
