"""Values on their way through an object store: pickled, with the numbers of large arrays beside the rest.

Functions, also lambdas and those of the script itself, go by value (cloudpickle). Arrays and tensors that are read only
are not copied where they arrive: all workers of a machine see the same memory.
"""

import io
import pickle
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ...core.base.extras import require
from .tensor_pickles import LargeBuffers, TensorPickler


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

    class Pickler(TensorPickler, cloudpickle.CloudPickler):
        pass

    stream, large, pickler = io.BytesIO(), LargeBuffers(), cast(Any, Pickler)
    pickler(stream, protocol=5, buffer_callback=large if shared else None).dump(value)
    return Packed(stream.getvalue(), tuple(np.frombuffer(view, np.uint8) for view in large.views))
