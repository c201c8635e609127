"""The memory as a differentiable function, whichever engine computes its two passes: numba, Triton or scans.

Legend: B students, S steps, N slots, D values, Q questions, R responses, X initial states (1 or B), L tiles.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True, slots=True)
class Kernels:
    """The passes of an engine. Inputs are those of `memory.loop`, contiguous.

    Attributes:
        tile: values that a backward pass processes at once.
        forward: (inputs, save) -> the reads, the final memory, and, with `save`, the memory every so many steps.
        backward: takes the inputs, the saved memories, and the gradients of reads and final memory; fills the gradients
            of each step's w (by tile), e and a, and of each student's initial memory.
        sum_rows: (gradients of the steps, index, length, rows) -> gradients of tables with so many rows, summed in a
            fixed order.
        sum_students: the gradient of an initial memory that all students share.
    """

    tile: int
    forward: Callable[[Sequence[Tensor], bool], tuple[Tensor, Tensor, Tensor]]
    backward: Callable[..., None]
    sum_rows: Callable[[Sequence[Tensor], Tensor, Tensor, int], list[Tensor]]
    sum_students: Callable[[Tensor], Tensor] = functools.partial(torch.sum, dim=0, keepdim=True)


class _Memory(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernels: Kernels, save: bool, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        inputs = tuple(tensor.contiguous() for tensor in inputs)
        reads_BSD, final_BND, saved = kernels.forward(inputs, save)
        if save:
            ctx.kernels = kernels
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*inputs, saved)
        return reads_BSD, final_BND

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        tensors, kernels = ctx.saved_tensors, ctx.kernels
        w_QN, e_RD, _, start_XND, question_BS, row_BS, length_B, _ = tensors
        steps, B, (N, D) = question_BS.shape, len(length_B), start_XND.shape[1:]
        grad_reads_BSD = w_QN.new_zeros(*steps, D) if grads[0] is None else grads[0].contiguous()
        grad_final_BND = w_QN.new_empty(0, N, D) if grads[1] is None else grads[1].contiguous()
        shapes = ((-(-D // kernels.tile), *steps, N), (1, *steps, D), (1, *steps, D), (B, N, D))
        *step_grads, grad_start_BND = (w_QN.new_empty(shape) for shape in shapes)
        kernels.backward(*tensors, grad_reads_BSD, grad_final_BND, *step_grads, grad_start_BND)
        by_question = kernels.sum_rows(step_grads[:1], question_BS, length_B, len(w_QN))
        by_row = kernels.sum_rows(step_grads[1:], row_BS, length_B, len(e_RD))
        grad_start = kernels.sum_students(grad_start_BND) if len(start_XND) < B else grad_start_BND
        return None, None, *by_question, *by_row, grad_start, None, None, None


def apply(kernels: Kernels, inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Reads and final memory; the memories are saved only where a gradient may be asked for."""
    save = torch.is_grad_enabled() and any(table.requires_grad for table in inputs[:4])
    return _Memory.apply(kernels, save, *inputs)
