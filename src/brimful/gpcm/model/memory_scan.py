"""The memory by scans over time, in plain torch: many steps at once, for few students and long sequences.

Legend: B students, S steps, T steps of a chunk, N slots, D values, Q questions, R responses, X initial states (1 or B),
I values of a row.

A cell's step is affine, M_t = g M_(t-1) + b, and two such steps make one, (g2, b2) o (g1, b1) = (g2 g1, g2 b1 + b2), so
that T steps take log2 T rounds. Backwards it is the same scan from the other end. Chunks follow one another, each as
long as a bounded number of cells allows, and only the memories between them are saved. Nothing is divided by g.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CELLS = 2**22
"""Cells that one tensor of a chunk may have: students times steps times slots times values."""


def chunk(B: int, S: int, N: int, D: int) -> int:
    """Steps of a chunk."""
    return max(1, min(S, CELLS // max(1, B * N * D)))


def _scan(g_BTND: Tensor, b_BTND: Tensor, first_BND: Tensor) -> tuple[Tensor, Tensor]:
    """What there is before each step, and what after the last. Overwrites its first two arguments."""
    b_BTND[:, 0].addcmul_(g_BTND[:, 0], first_BND)
    shift, T = 1, b_BTND.shape[1]
    while shift < T:
        b_BTND[:, shift:] = torch.addcmul(b_BTND[:, shift:], g_BTND[:, shift:], b_BTND[:, :-shift])
        if 2 * shift < T:
            g_BTND[:, shift:] = g_BTND[:, shift:] * g_BTND[:, :-shift]
        shift *= 2
    return torch.cat((first_BND[:, None], b_BTND[:, :-1]), 1), b_BTND[:, -1].clone()


def _memories(w_BTN: Tensor, e_BTD: Tensor, a_BTD: Tensor, M_BND: Tensor) -> tuple[Tensor, Tensor]:
    w_BTN1 = w_BTN[..., None]
    return _scan(1 - w_BTN1 * e_BTD[:, :, None], w_BTN1 * a_BTD[:, :, None], M_BND)


def _gradients(
    w_BTN: Tensor, e_BTD: Tensor, a_BTD: Tensor, r_BTD: Tensor, M_BND: Tensor, G_BND: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of a chunk's w, e and a, and of the memory before it, M; from those of its reads, r, and of the
    memory after it, G."""
    M_BTND, _ = _memories(w_BTN, e_BTD, a_BTD, M_BND)
    back_BTN1 = w_BTN.flip(1)[..., None]
    g_BTND, b_BTND = 1 - back_BTN1 * e_BTD.flip(1)[:, :, None], back_BTN1 * r_BTD.flip(1)[:, :, None]
    G_BTND, G_BND = _scan(g_BTND, b_BTND, G_BND)
    del g_BTND, b_BTND
    G_BTND = G_BTND.flip(1)
    grad_a_BTD = torch.einsum("btn,btnd->btd", w_BTN, G_BTND)
    grad_w_BTN = torch.einsum("btnd,btd->btn", G_BTND, a_BTD) + torch.einsum("btnd,btd->btn", M_BTND, r_BTD)
    both_BTND = M_BTND.mul_(G_BTND)
    grad_e_BTD = -torch.einsum("btn,btnd->btd", w_BTN, both_BTND)
    grad_w_BTN -= torch.einsum("btnd,btd->btn", both_BTND, e_BTD)
    return grad_w_BTN, grad_e_BTD, grad_a_BTD, G_BND


def _sum_rows(grad_BSI: Tensor, index_BS: Tensor, real_BS: Tensor, rows: int) -> Tensor:
    """Sums the steps' gradients for each row of the table, in the order of the steps, also on CUDA, where the order of
    `index_add` is not deterministic. Padding has a row of its own at the end."""
    key, order = torch.where(real_BS, index_BS, rows).flatten().sort(stable=True)
    begins = torch.searchsorted(key, torch.arange(rows + 2, device=key.device))
    return torch.segment_reduce(grad_BSI.flatten(0, 1)[order], "sum", offsets=begins, axis=0)[:-1]


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, T: int, w_QN, e_RD, a_RD, start_XND, question_BS, row_BS, real_BS):
        B, S = question_BS.shape
        M_BND = start_XND.expand(B, -1, -1)
        reads, saved = [], []
        for t in range(0, S, T):
            saved.append(M_BND)
            question_BT, row_BT = question_BS[:, t : t + T], row_BS[:, t : t + T]
            w_BTN = w_QN[question_BT] * real_BS[:, t : t + T, None]
            before_BTND, M_BND = _memories(w_BTN, e_RD[row_BT], a_RD[row_BT], M_BND)
            reads.append(torch.einsum("btn,btnd->btd", w_BTN, before_BTND))
        ctx.T = T
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(w_QN, e_RD, a_RD, start_XND, question_BS, row_BS, real_BS, *saved)
        return torch.cat(reads, 1), M_BND

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None):
        w_QN, e_RD, a_RD, start_XND, question_BS, row_BS, real_BS, *saved = ctx.saved_tensors
        (B, S), T = question_BS.shape, ctx.T
        G_BND = torch.zeros_like(saved[0]) if grads[1] is None else grads[1]
        grad_w_BSN, grad_e_BSD, grad_a_BSD = (w_QN.new_empty(B, S, table.shape[1]) for table in (w_QN, e_RD, a_RD))
        for t in range((S - 1) // T * T, -1, -T):
            now = slice(t, t + T)
            e_BTD, a_BTD = e_RD[row_BS[:, now]], a_RD[row_BS[:, now]]
            w_BTN = w_QN[question_BS[:, now]] * real_BS[:, now, None]
            r_BTD = torch.zeros_like(e_BTD) if grads[0] is None else grads[0][:, now]
            grad_w_BSN[:, now], grad_e_BSD[:, now], grad_a_BSD[:, now], G_BND = _gradients(
                w_BTN, e_BTD, a_BTD, r_BTD, saved[t // T], G_BND
            )
        return (
            None,
            _sum_rows(grad_w_BSN, question_BS, real_BS, len(w_QN)),
            _sum_rows(grad_e_BSD, row_BS, real_BS, len(e_RD)),
            _sum_rows(grad_a_BSD, row_BS, real_BS, len(e_RD)),
            G_BND.sum(0, keepdim=True) if len(start_XND) < B else G_BND,
            None,
            None,
            None,
        )


def scan(
    w_QN: Tensor, e_RD: Tensor, a_RD: Tensor, start_XND: Tensor, question_BS: Tensor, row_BS: Tensor, length_B: Tensor,
    steps: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """What `memory.loop` does, `steps` at a time."""
    B, S = question_BS.shape
    real_BS = torch.arange(S, device=length_B.device) < length_B[:, None]
    question_BS, row_BS = question_BS.masked_fill(~real_BS, 0), row_BS.masked_fill(~real_BS, 0)
    steps = steps or chunk(B, S, *start_XND.shape[1:])
    return _Scan.apply(steps, w_QN, e_RD, a_RD, start_XND, question_BS, row_BS, real_BS)
