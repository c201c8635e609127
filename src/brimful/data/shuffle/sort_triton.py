"""The order of 64-bit words that are their own numbers in the low bits, from a sort of their upper halves alone, which
takes half the passes over them.

Words whose upper halves are equal then lie side by side, in any order. One kernel gives each its place among those by
the whole word. It looks at `_REACH` words on either side, so runs of up to `_REACH + 1` equal halves are put in order;
with at most `MOST` random words a longer run is less likely than one in 2^50.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
import contextlib

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST = 1 << 24
_REACH = 8
_BLOCK = 256


@triton.jit(do_not_specialize=["count"])
def _settle(out, index, halves, words, count, REACH: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = place < count
    number = tl.load(index + place, mask=real, other=0)
    half = tl.load(halves + place, mask=real, other=0)
    word = tl.load(words + number, mask=real, other=0)
    moved = tl.zeros((BLOCK,), tl.int32)
    for distance in tl.static_range(1, REACH + 1):
        before, after = place - distance, place + distance
        alike = real & (before >= 0) & (tl.load(halves + before, mask=real & (before >= 0), other=0) == half)
        other = tl.load(words + tl.load(index + before, mask=alike, other=0), mask=alike, other=0)
        moved -= (alike & (other > word)).to(tl.int32)
        within = real & (after < count)
        alike = within & (tl.load(halves + after, mask=within, other=0) == half)
        other = tl.load(words + tl.load(index + after, mask=alike, other=0), mask=alike, other=0)
        moved += (alike & (other < word)).to(tl.int32)
    tl.store(out + place + moved, number, mask=real)


def order(words: Tensor) -> Tensor:
    """The numbers 0 to `len(words) - 1` by their words, int64, of which there are at most `MOST`."""
    count = len(words)
    halves, index = torch.sort(words.view(torch.int32)[1::2])
    return settled(words, halves, index) if count else index


def settled(words: Tensor, halves: Tensor, index: Tensor) -> Tensor:
    """`index`, which sorts the upper halves of the words, with the whole words in order."""
    out, count = torch.empty_like(index), len(index)
    with torch.cuda.device(words.device) if words.is_cuda else contextlib.nullcontext():
        _settle[(triton.cdiv(count, _BLOCK),)](out, index, halves, words, count, _REACH, _BLOCK)
    return out
