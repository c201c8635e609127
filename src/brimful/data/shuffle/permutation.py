"""Permutations that are a pure function of (seed, epoch): the same on every platform, device and in every version.

A permutation sorts one word of a Philox stream per sample, the sample's number in its low bits: all words differ, so
there is one order of them, whatever the algorithm. `torch.randperm` promises neither.
"""

import numpy as np
import torch
from torch import Tensor

from .philox import Stream, has_kernels

ORDER, BUCKETS, TRANSFORM, SPLIT, CHUNKS, STEPS = range(6)
"""What the random numbers are for."""


def permutation(samples: int, seed: int, epoch: int, shard: int = 0) -> np.ndarray:
    """The numbers 0 to `samples - 1`, in the order of an epoch; each shard has another.

    Example:
        >>> permutation(5, seed=0, epoch=0)
        array([0, 2, 1, 4, 3])
    """
    return shuffled(samples, Stream(seed, epoch, ORDER, shard))


def permutation_on(device: torch.device, samples: int, seed: int, epoch: int, shard: int = 0) -> Tensor:
    """The same, made on a device, without waiting for it."""
    low = low_bits(samples)
    keys = Stream(seed, epoch, ORDER, shard).sort_keys_on(device, samples, low)
    if device.type == "cuda" and has_kernels():
        from . import sort_triton

        if samples <= sort_triton.MOST:
            return sort_triton.order(keys)
    return torch.sort(keys).values.bitwise_and_(low)


def bucket_permutation(batches: int, seed: int, epoch: int, window: int) -> np.ndarray:
    """The order of the batches of one window of length bucketing."""
    return shuffled(batches, Stream(seed, epoch, BUCKETS, window))


def split_permutation(samples: int, seed: int) -> np.ndarray:
    """The order in which samples are dealt to splits."""
    return shuffled(samples, Stream(seed, 0, SPLIT))


def transform_seed(seed: int, epoch: int, batch: int, position: int) -> int:
    """The seed of a batch's random transforms, `position` samples into the batch."""
    return int(Stream(seed, epoch, TRANSFORM, batch, position).words(1)[0] >> np.uint64(1))


def shuffled(count: int, stream: Stream) -> np.ndarray:
    """The numbers 0 to `count - 1` in the order of a stream's words."""
    keys = sort_keys(stream, count, 0, count)
    keys.sort()
    keys &= np.uint64(low_bits(count))
    return keys.view(np.int64)


def sort_keys(stream: Stream, count: int, start: int, stop: int) -> np.ndarray:
    """(stop - start,) uint64: what the numbers from `start` to `stop` are sorted by, of `count`."""
    low = np.uint64(low_bits(count))
    words = stream.words(stop - start, start)
    words &= ~low
    words |= np.arange(start, stop, dtype=np.uint64)
    return words


def low_bits(count: int) -> int:
    """The bits of a word that hold its number, of `count`."""
    return (1 << count.bit_length()) - 1
