"""The words of `philox.Stream` as a Triton kernel: one launch, whatever their number."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
import contextlib
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...core.base.compilers.activity import connect_triton

connect_triton()

_BLOCK = 128


@triton.jit(do_not_specialize=["count", "seed", "epoch", "use", "first", "second", "low", "flip"])
def _philox(
    out,
    stored,
    count,
    seed,
    epoch,
    use,
    first,
    second,
    low,
    flip,
    M0: tl.constexpr,
    M1: tl.constexpr,
    W0: tl.constexpr,
    W1: tl.constexpr,
    ROUNDS: tl.constexpr,
    STORED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    if STORED:
        epoch = tl.load(stored)
    block = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    zero = (block * 0).to(tl.uint64)
    c0, c1 = zero + (block + 1).to(tl.uint64), zero + second.to(tl.uint64)
    c2, c3 = zero + first.to(tl.uint64), zero + use.to(tl.uint64)
    k0, k1 = zero + seed.to(tl.uint64), zero + epoch.to(tl.uint64)
    m0, m1 = zero + M0, zero + M1
    for _ in tl.static_range(ROUNDS):
        high0, high1 = tl.umulhi(m0, c0), tl.umulhi(m1, c2)
        low0, low1 = m0 * c0, m1 * c2
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + W0, k1 + W1
    _store(out, block * 4, c0, count, low, flip)
    _store(out, block * 4 + 1, c1, count, low, flip)
    _store(out, block * 4 + 2, c2, count, low, flip)
    _store(out, block * 4 + 3, c3, count, low, flip)


@triton.jit
def _store(out, index, word, count, low, flip):
    """Words with their own number in the bits of `low`, and those of `flip` turned over."""
    kept = low.to(tl.uint64) + word * 0
    word = ((word | kept) ^ kept | (index.to(tl.uint64) & kept)) ^ flip.to(tl.uint64)
    tl.store(out + index, word.to(tl.int64, bitcast=True), mask=index < count)


def words(
    stream: Sequence[int],
    constants: Sequence[int],
    device: torch.device,
    count: int,
    low: int,
    flip: int,
    epoch: Tensor | None = None,
) -> Tensor:
    """The words of a stream, by its attributes, and the generator's constants. With `epoch`, one number on the device,
    the stream's epoch is read from it."""
    out = torch.empty(count, dtype=torch.int64, device=device)
    if count:
        grid = (triton.cdiv(triton.cdiv(count, 4), _BLOCK),)
        with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
            stored = out if epoch is None else epoch
            _philox[grid](out, stored, count, *stream, low, flip, *constants, epoch is not None, _BLOCK)
    return out
