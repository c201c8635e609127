"""Random numbers that are a pure function of (seed, epoch): the same on every platform and in every version.

They are the raw 64-bit words of the Philox counter generator, keyed by (seed, epoch), whose stream NumPy keeps fixed.
A permutation sorts one word per sample, the sample's number in its low bits: all words differ, so there is one order
of them, whatever the algorithm. `torch.randperm` promises neither.
"""

import numpy as np

_ORDER, _BUCKETS, _TRANSFORM, _SPLIT = range(4)  # what the numbers are for: each use has a stream of its own


def permutation(samples: int, seed: int, epoch: int) -> np.ndarray:
    """The numbers 0 to `samples - 1`, in the order of an epoch.

    Example:
        >>> permutation(5, seed=0, epoch=0)
        array([0, 2, 1, 4, 3])
    """
    return _sort_random_words(samples, seed, epoch, _ORDER, 0)


def bucket_permutation(batches: int, seed: int, epoch: int, window: int) -> np.ndarray:
    """The order of the batches of one window of length bucketing."""
    return _sort_random_words(batches, seed, epoch, _BUCKETS, window)


def split_permutation(samples: int, seed: int) -> np.ndarray:
    """The order in which samples are dealt to splits."""
    return _sort_random_words(samples, seed, 0, _SPLIT, 0)


def transform_seed(seed: int, epoch: int, batch: int, position: int) -> int:
    """The seed of a batch's random transforms, `position` samples into the batch."""
    return int(_words(1, seed, epoch, _TRANSFORM, batch, position)[0] >> np.uint64(1))


def _sort_random_words(count: int, seed: int, epoch: int, use: int, which: int) -> np.ndarray:
    low = np.uint64((1 << count.bit_length()) - 1)
    words = _words(count, seed, epoch, use, which)
    words &= ~low
    words |= np.arange(count, dtype=np.uint64)
    words.sort()
    words &= low
    return words.astype(np.int64)


def _words(count: int, seed: int, epoch: int, use: int, *which: int) -> np.ndarray:
    first, second = (*which, 0)[:2]
    counter = np.array([0, second, first, use], np.uint64)  # the first entry counts the words
    return np.random.Philox(key=np.array([seed, epoch], np.uint64), counter=counter).random_raw(count)
