"""`copied_rows.copy_rows` as a kernel: one program per row."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 512


@triton.jit
def _copy(out, at, source, offsets, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    place = tl.load(at + row)
    start, end = tl.load(offsets + row), tl.load(offsets + row + 1)
    if place > 0:
        for first in range(start, end, BLOCK):
            number = first + tl.arange(0, BLOCK)
            real = number < end
            value = tl.load(source + number, mask=real, other=0)
            tl.store(out + place + (number - start), value.to(tl.uint8), mask=real)


def copy_rows(out: Tensor, at: Tensor, source: Tensor, offsets: Tensor) -> None:
    """See `copied_rows.copy_rows`."""
    if len(at) and len(source):
        with torch.cuda.device(out.device):
            _copy[(len(at),)](out, at, source, offsets, _BLOCK)
