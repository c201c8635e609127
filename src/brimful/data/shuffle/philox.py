"""Random words that are a pure function of a key and a counter: those of NumPy's Philox, on any device.

NumPy keeps the stream of its Philox generator (four words of 64 bits per counter, ten rounds) fixed. On CUDA the same
words are computed by a Triton kernel, in one launch; where there is no Triton, in plain torch. Torch has no unsigned
64-bit arithmetic: there a word is an int64 of the same bits.
"""

import functools
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

_ROUNDS = 10
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_KEY_STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)

CONSTANTS = (*_MULTIPLIERS, *_KEY_STEPS, _ROUNDS)

_HALF = 0xFFFFFFFF
_WORD = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class Stream:
    """An endless sequence of words.

    Attributes:
        seed, epoch: the key, from 0 to 2^64 - 1.
        use: what the numbers are for: each use has streams of its own.
        first, second: which of these streams.
    """

    seed: int
    epoch: int
    use: int
    first: int = 0
    second: int = 0

    @property
    def key(self) -> tuple[int, ...]:
        return self.seed, self.epoch, self.use, self.first, self.second

    def words(self, count: int, start: int = 0) -> np.ndarray:
        """(count,) uint64, from word `start` on."""
        block, skipped = divmod(start, 4)
        counter = np.array([block, self.second, self.first, self.use], np.uint64)
        generator = np.random.Philox(key=np.array([self.seed, self.epoch], np.uint64), counter=counter)
        return generator.random_raw(skipped + count)[skipped:]

    def words_on(self, device: torch.device, count: int) -> Tensor:
        """(count,) int64 of the same bits, computed on a device."""
        return self._on(device, count, 0, 0)

    def sort_keys_on(self, device: torch.device, count: int, low: int) -> Tensor:
        """(count,) int64 in whose order the words are if the bits of `low` are replaced by the word's number: all
        differ, so there is one order of them, whatever the algorithm."""
        return self._on(device, count, low, 1 << 63)

    def _on(self, device: torch.device, count: int, low: int, flip: int) -> Tensor:
        if device.type == "cuda" and has_kernels():
            from . import philox_triton

            return philox_triton.words(self.key, CONSTANTS, device, count, low, flip)
        words = _words(self, device, count)
        if low:
            words = (words & ~low) | torch.arange(count, device=device)
        return words ^ signed(flip)


@functools.cache
def has_kernels() -> bool:
    """Whether there is Triton."""
    return find_spec("triton") is not None


def _words(stream: Stream, device: torch.device, count: int) -> Tensor:
    """The kernel's twin in plain torch."""
    blocks = -(-count // 4)
    c0 = torch.arange(1, blocks + 1, device=device)  # NumPy counts up before it draws
    c1, c2, c3 = (torch.full_like(c0, signed(part)) for part in (stream.second, stream.first, stream.use))
    k0, k1 = stream.seed, stream.epoch
    for _ in range(_ROUNDS):
        high0, low0 = _product(c0, _MULTIPLIERS[0])
        high1, low1 = _product(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ signed(k0), low1, high0 ^ c3 ^ signed(k1), low0
        k0, k1 = (k0 + _KEY_STEPS[0]) & _WORD, (k1 + _KEY_STEPS[1]) & _WORD
    return torch.stack((c0, c1, c2, c3), 1).reshape(-1)[:count]


def _product(word: Tensor, by: int) -> tuple[Tensor, Tensor]:
    """The high and the low half of an unsigned product of 128 bits, from products of 32-bit halves."""
    low, high, by_low, by_high = word & _HALF, _upper(word), by & _HALF, by >> 32
    across, back = low * by_high, high * by_low
    carry = _upper(low * by_low) + (across & _HALF) + (back & _HALF)
    return high * by_high + _upper(across) + _upper(back) + _upper(carry), word * signed(by)


def _upper(word: Tensor) -> Tensor:
    return (word >> 32) & _HALF


def signed(word: int) -> int:
    """The int64 of the same bits."""
    return word - (1 << 64) if word >> 63 else word
