"""Memory that a test can be sure of: fresh pages, touched, and given back when dropped."""

import mmap

import numpy as np


def pages(count: int) -> np.ndarray:
    """That many bytes in fresh pages, which no allocator kept from before."""
    block = np.frombuffer(mmap.mmap(-1, count), dtype=np.uint8)
    block[:] = 1
    return block
