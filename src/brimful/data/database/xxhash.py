"""XXH64, the checksum of chunks: several times as fast as a CRC, and sensitive to where a byte stands."""

from typing import Any

import numba
import numpy as np

from ...core.base.compilers.numba_cache import cached_njit

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


@numba.njit(nogil=True, inline="always")
def _rotated(x: Any, bits: int) -> Any:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@numba.njit(nogil=True, inline="always")
def _round(lane: Any, word: Any) -> Any:
    return _rotated(lane + word * _P2, 31) * _P1


@cached_njit(nogil=True)
def _xxh64(content: Any) -> Any:
    whole = len(content) // 8 * 8
    words, rest = content[:whole].view(np.uint64), content[whole:]
    size, place = np.uint64(len(content)), 0
    if len(words) >= 4:
        a, b, c, d = _P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1
        for stripe in range(len(words) // 4):
            place = 4 * stripe
            a = _round(a, words[place])
            b = _round(b, words[place + 1])
            c = _round(c, words[place + 2])
            d = _round(d, words[place + 3])
        place += 4
        total = _rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)
        for lane in (a, b, c, d):
            total = (total ^ _round(np.uint64(0), lane)) * _P1 + _P4
    else:
        total = _P5
    total += size
    while place < len(words):
        total = _rotated(total ^ _round(np.uint64(0), words[place]), 27) * _P1 + _P4
        place += 1
    left = 0
    if len(rest) >= 4:
        half = np.uint64(0)
        for byte in range(4):
            half |= np.uint64(rest[byte]) << np.uint64(8 * byte)
        total = _rotated(total ^ (half * _P1), 23) * _P2 + _P3
        left = 4
    while left < len(rest):
        total = _rotated(total ^ (np.uint64(rest[left]) * _P5), 11) * _P1
        left += 1
    total = (total ^ (total >> np.uint64(33))) * _P2
    total = (total ^ (total >> np.uint64(29))) * _P3
    return total ^ (total >> np.uint64(32))


def xxh64(content: Any) -> int:
    """The XXH64 of some bytes, with seed 0."""
    return int(_xxh64(np.frombuffer(memoryview(content).toreadonly(), np.uint8)))  # of one type: compiled once
