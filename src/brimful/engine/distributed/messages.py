"""Messages between processes of one machine: pickled values, whose large arrays go straight from memory to memory.

A pickle would hold a copy of every array, the message another, and what reads it two more: with results of a gigabyte,
workers would take longer to send than to compute. Pipes, not shared memory: a container may have little of that.
"""

import io
import os
import pickle
import struct
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from .tensor_pickles import LargeBuffers, TensorPickler

_AT_ONCE = 1 << 30  # bytes; some systems take less than two gigabytes in one call
_COUNT = struct.Struct("<I")


class _Pickler(TensorPickler, pickle.Pickler):
    pass


@dataclass(frozen=True, slots=True)
class Message:
    """A value on its way.

    Attributes:
        content: its pickle, after the number and the sizes of the buffers.
        buffers: the memory of its large arrays.
    """

    content: bytes
    buffers: tuple[memoryview, ...]

    @staticmethod
    def of(value: Any) -> "Message":
        """A value as a message; its arrays must not change until that is sent."""
        stream, large = io.BytesIO(), LargeBuffers()
        _Pickler(stream, protocol=5, buffer_callback=large).dump(value)
        sizes = struct.pack(f"<{len(large.views)}Q", *(view.nbytes for view in large.views))
        return Message(b"".join([_COUNT.pack(len(large.views)), sizes, stream.getbuffer()]), tuple(large.views))

    def send(self, connection: Connection) -> None:
        connection.send_bytes(self.content)
        for view in self.buffers:
            while view.nbytes:
                view = view[os.write(connection.fileno(), view[:_AT_ONCE]) :]


def receive(connection: Connection) -> Any:
    """The next value that the other side sends.

    Raises:
        EOFError: the other side is gone, maybe in the middle of a message.
    """
    content = connection.recv_bytes()
    (count,) = _COUNT.unpack_from(content)
    sizes = struct.unpack_from(f"<{count}Q", content, _COUNT.size)
    buffers = [_read(connection, size) for size in sizes]
    return pickle.loads(memoryview(content)[_COUNT.size + 8 * count :], buffers=buffers)


def _read(connection: Connection, size: int) -> np.ndarray:
    """So many bytes, in new memory."""
    buffer: Any = np.empty(size, np.uint8)  # its memory is not filled with zeros first
    view = memoryview(buffer)
    while view.nbytes:
        read = os.readv(connection.fileno(), [view[:_AT_ONCE]])
        if not read:
            raise EOFError
        view = view[read:]
    return buffer
