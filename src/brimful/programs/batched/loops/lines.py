"""Lines between locations, compiled for the CPU. The plain twin is in `../operations/lines.py`."""

import numpy as np

from ..compiled import jit
from ..key_bits import BIAS, BITS, COLOR_BIAS

_ORIGIN = (COLOR_BIAS << 2 * BITS) | (BIAS << BITS) | BIAS
_DOWN = 1 << BITS


@jit
def lines(ai, aj, bi, bj, counts, offsets):
    """The keys of straight or diagonal lines, in ascending order; lines of no locations are left out."""
    keys = np.empty(offsets[-1], np.int64)
    for line in range(len(counts)):
        if counts[line] == 0:
            continue
        forward = ai[line] < bi[line] or (ai[line] == bi[line] and aj[line] <= bj[line])
        i, j = (ai[line], aj[line]) if forward else (bi[line], bj[line])
        end_i, end_j = (bi[line], bj[line]) if forward else (ai[line], aj[line])
        step = np.sign(end_i - i) * _DOWN + np.sign(end_j - j)
        key = _ORIGIN + i * _DOWN + j
        for at in range(offsets[line], offsets[line + 1]):
            keys[at] = key
            key += step
    return keys
